"""Odd names and texts, wherever the command takes one."""

import json
from pathlib import Path

import pytest
from tests import lakes

from eventlake.cli.main import main

ODD = [
    "",
    " ",
    ".",
    "..",
    "...",
    "../../x.y",
    "a/b",
    "a.b.c",
    "a\0b",
    "x" * 300,
    "x" * 5000,
    "x" * 200 + "." + "y" * 250,
    "ünï.cödé",
    "注文",
    "\udcff",
    "*",
    "%2e%2e",
    "web.\n",
    "-",
]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    event = {"type": "track", "event": "Order Done", "receivedAt": "2026-11-01T00:00:00Z"}
    log = tmp_path / "a.jsonl"
    log.write_text("\n".join([json.dumps(event | {"messageId": "a"}), "{"]))
    assert lakes.load([log], tmp_path / "lake").status == "finished"
    return tmp_path / "lake"


@pytest.mark.parametrize(
    "command",
    [
        ["schema", "ODD"],
        ["query", "ODD"],
        ["query", "select * from ODD"],
        ["query", 'select * from "ODD"."ODD"'],
        ["reports", "--source", "ODD"],
        ["quarantine", "--source", "ODD"],
        ["verify", "--source", "ODD"],
        ["sync", "--source", "ODD"],
        ["sync", "--source", "web", "--source-id", "ODD"],
        ["load", "a.jsonl", "--source", "ODD"],
        ["load", "a.jsonl", "--source", "app", "--source-id", "ODD"],
        ["load", "a.jsonl", "--source", "app", "--database", "ODD"],
        ["load", "a.jsonl", "--source", "app", "--table-prefix", "ODD"],
        ["load", "a.jsonl", "--source", "app", "--workspace", "ODD"],
    ],
    ids=" ".join,
)
def test_an_odd_argument_is_a_mistake_of_the_user(
    lake: Path,
    command: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(lake.parent)
    for odd in ODD:
        given = [word.replace("ODD", odd) for word in command]
        code = main([*given, "--lake", str(lake)], lakes.ApiWithoutSpark())
        said = capsys.readouterr()
        assert "unexpected error" not in said.err, (odd, said.err)
        if code:
            assert code == 2, (odd, said.err)
            assert "InvalidSettings" in said.err or "Usage" in said.err, (odd, said.err)
        else:  # a slug, or an option that is as good as not given
            assert command[0] in ("load", "sync"), odd
            assert odd in ("", "a.b.c") or "--table-prefix" in command, odd
