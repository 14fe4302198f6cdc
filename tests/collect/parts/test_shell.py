"""The commands `serve` and `sync`: how their options are passed on."""

import json
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eventlake.cli import show
from eventlake.cli.main import main
from eventlake.cli.options import CollectOptions
from eventlake.collect import server
from eventlake.collect.server import Endpoint
from eventlake.collect.settings import CollectorSettings, ServedSource
from eventlake.errors import InvalidSettings


def test_sync_passes_only_options_that_were_set() -> None:
    sync_call: dict[str, Any] = {}

    def sync(source: str, **options: Any) -> Any:
        sync_call.update(options, source=source)
        return SimpleNamespace(status="nothing", already_loaded=0, passed_over=(), warnings=())

    api = SimpleNamespace(sync=sync)
    assert main(["sync", "--source", "web", "--quiet"], api) == 0
    assert (sync_call["source"], sync_call["changes"], sync_call["lake"]) == ("web", {}, "lake")
    options = ["--dedup-days", "3", "--skip-event", "Tick", "--naming", "native", "--lake", "here"]
    assert main(["sync", "--source", "web", "--quiet", *options], api) == 0
    assert sync_call["changes"] == {"dedup_days": 3, "skip_events": ["Tick"], "naming": "native"}
    assert sync_call["lake"] == "here"


def test_serve_passes_all_options_to_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[tuple[CollectorSettings, list[ServedSource]]] = []

    def serve(settings: CollectorSettings, sources: list[ServedSource], on_ready: Any) -> None:
        calls.append((settings, sources))
        on_ready(Endpoint(url="http://127.0.0.1:8400", write_keys={"web": "k", "ios": "l"}))

    monkeypatch.setattr(server, "serve", serve)
    users = tmp_path / "users"
    users.touch()
    options = ["--write-key", "k", "--seal-mb", "0.5", "--seal-seconds", "9", "--source-id", "id"]
    options += ["--spool", str(tmp_path / "spool"), "--suppress", str(users)]
    assert main(["serve", "--source", "web", "--lake", str(tmp_path / "lake"), *options]) == 0
    ((settings, (source,)),) = calls
    assert (settings.host, settings.port, source.write_keys) == ("127.0.0.1", 8400, ("k",))
    assert (settings.limits.seal_bytes, settings.limits.seal_seconds) == (1 << 19, 9.0)
    assert source.archive == "segment-logs/id"
    assert source.spool_root(settings) == tmp_path / "spool" / "id"
    assert source.suppress == (users,)
    assert "'k'" not in repr(source)
    out = capsys.readouterr().out.splitlines()
    keys = ["write key of web: k", "write key of ios: l"]
    assert out[:3] == ["listening on http://127.0.0.1:8400", *keys]
    assert out[3].startswith("try: curl -u k: -d ")
    assert main(["serve", "--source", "web", "--lake", str(tmp_path / "lake"), "--json"]) == 0
    ready = {"url": "http://127.0.0.1:8400", "write_keys": {"web": "k", "ios": "l"}}
    assert json.loads(capsys.readouterr().out) == ready


def test_each_source_gets_its_own_keys_id_and_suppression_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("all", "ios"):
        Path(name).touch()
    monkeypatch.setenv("EVENTLAKE_WRITE_KEY", "web:a b\nios:c\n\nweb:=d")
    options = CollectOptions(
        source_id=["ios:5"], suppress=["all", "ios:ios"], spool=tmp_path / "spool"
    )
    settings = options.collector_settings("lake")
    web, ios, tv = options.served_sources(settings.store, ["web", "ios", "tv"])
    assert [one.write_keys for one in (web, ios, tv)] == [("a b", "=d"), ("c",), ()]
    assert [one.settings.source_id for one in (web, ios, tv)] == ["web", "5", "tv"]
    assert web.suppress == tv.suppress == (Path("all"),)
    assert ios.suppress == (Path("all"), Path("ios"))
    (source,) = CollectOptions(write_key=["tv"]).served_sources(settings.store, ["tv"])
    assert source.write_keys == ("tv",), "a key may be equal to the name of its source"
    assert ios.source_file(settings) == tmp_path / "spool/5/source.json"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--source", "web"], "--source web is the source web with the id web, which is served"),
        (["--source-id", "same"], "--source ios is the source web with the id same"),
        (["--write-key", "both"], "the sources web and ios have the same write key"),
        (["--write-key", "web:k", "--write-key", "ios:k"], "have the same write key"),
        (["--write-key", "tv:secret"], "with a --source) cannot be sent as Basic user"),
        (["--suppress", "tv:users"], "--suppress is 'tv:users': no such file"),
    ],
)
def test_sources_that_contradict_are_named(
    options: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["serve", "--source", "web", "--source", "ios", "--port", "0", *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "secret" not in error


def test_a_missing_extra_is_named() -> None:
    with (
        pytest.raises(InvalidSettings, match=r"eventlake\[collect\]"),
        show.require_extra("collect"),
    ):
        raise ModuleNotFoundError(name="uvloop")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--write-key", "a:b"], "cannot be sent as Basic user"),
        (["--write-key", ""], "cannot be sent as Basic user"),
        (["--write-key", "\udcff"], "cannot be sent as Basic user"),
        (["--seal-mb", "inf"], "seal-mb"),
        (["--seal-mb", "nan"], "seal-mb"),
        (["--seal-mb", "-1"], "seal-mb"),
        (["--seal-mb", "0"], "seal-mb"),
        (["--seal-seconds", "inf"], "seal-seconds"),
        (["--seal-seconds", "nan"], "seal-seconds"),
        (["--seal-seconds", "-1"], "seal-seconds"),
        (["--port", "-1"], "port"),
        (["--port", "70000"], "port"),
        (["--host", ""], "--host is empty"),
        (["--host", "no.such.host.invalid"], "cannot listen on no.such.host.invalid"),
        (["--host", "a" * 70], "cannot listen on"),
        (["--host", "a..b"], "cannot listen on"),
        (["--spool", "FILE"], "cannot be the spool: Not a directory; name a local folder"),
        (["--spool", "FILE/below"], "cannot be the spool: Not a directory"),
        (["--spool", "x" * 300], "cannot be the spool: File name too long"),
    ],
)
def test_a_wrong_option_is_named(
    options: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("FILE").touch()
    assert main(["serve", "--source", "web", "--lake", "lake", *options]) == 2
    assert message in capsys.readouterr().err


def test_a_key_with_odd_characters_is_quoted(capsys: pytest.CaptureFixture[str]) -> None:
    show.endpoint(Endpoint(url="http://127.0.0.1:8400", write_keys={"web": "a b'$x"}))
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("try: "))
    assert shlex.split(line)[1:4] == ["curl", "-u", "a b'$x:"]
