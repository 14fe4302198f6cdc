"""A source's own file, its read_suppressed_users, its settings."""

import json
import os
from base64 import b64encode
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eventlake.collect.intake import parse_single, process_single
from eventlake.collect.keys import Gate, parse_basic_user, validate_write_key
from eventlake.collect.source import (
    WatchedFile,
    archive_folder,
    load_gate,
    read_suppressed_users,
    resolve_settings,
)
from eventlake.collect.stamp import Arrival
from eventlake.errors import InvalidSettings
from eventlake.kernels.route import ExcludedCounts, Router, Rules
from eventlake.ledger import Ledger
from eventlake.model.commit import Commit, Counts
from eventlake.model.layout import DEFAULT_LAYOUT
from eventlake.model.naming import Call
from eventlake.model.settings import source_settings
from eventlake.stores import Disk


def test_a_key_is_generated_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "source.json"
    first = load_gate(path)
    assert len(first.write_key) >= 32
    assert load_gate(path) == first
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["source.json"]


def test_a_source_can_be_disabled(tmp_path: Path) -> None:
    path = tmp_path / "source.json"
    path.write_text('{"write_key":"k","enabled":false}')
    assert not load_gate(path).enabled
    assert not load_gate(path, "given").enabled
    path.write_text('{"enabled":false}')
    assert load_gate(path, "given") == Gate("given", enabled=False)
    with pytest.raises(InvalidSettings, match="has no write_key"):
        load_gate(path)


def test_a_key_from_the_command_line_is_not_written_to_disk(tmp_path: Path) -> None:
    assert load_gate(tmp_path / "source.json", "given") == Gate("given")
    assert not list(tmp_path.iterdir())


def test_an_invalid_file_is_named_without_its_content(tmp_path: Path) -> None:
    path = tmp_path / "source.json"
    path.write_text('{"write_key":"secret"')
    with pytest.raises(InvalidSettings, match=r"source\.json") as refused:
        load_gate(path)
    assert "secret" not in str(refused.value)


def test_a_change_of_a_file_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text("a\n\nb\n")
    watched = WatchedFile(path)
    assert [watched.has_changed(), watched.has_changed()] == [True, False]
    assert read_suppressed_users(path) == {"a", "b"}
    os.utime(path, (5, 5))
    assert watched.has_changed()
    path.unlink()
    assert not watched.has_changed()
    assert not WatchedFile(None).has_changed()


def test_settings_are_the_changes_then_the_last_load_then_the_defaults(tmp_path: Path) -> None:
    store = Disk(str(tmp_path))
    assert resolve_settings(store, DEFAULT_LAYOUT, "web") == source_settings(source="web")
    last = source_settings(source="web", source_id="id-1", naming="native", dedup_days=3)
    Ledger(store, DEFAULT_LAYOUT, "id-1").append(
        1, Commit(run_id="1793500000000000000", settings=last, inputs=(), counts=Counts())
    )
    assert resolve_settings(store, DEFAULT_LAYOUT, "web") == last
    assert resolve_settings(store, DEFAULT_LAYOUT, "id-1") == last
    changed = resolve_settings(store, DEFAULT_LAYOUT, "web", dedup_days=1, naming=None)
    assert (changed.dedup_days, changed.naming) == (1, "native")
    assert archive_folder(last) == "segment-logs/id-1"


def test_a_suppression_file_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "users.txt"
    path.write_bytes(b"u1\n\xff\xfe\n")
    with pytest.raises(InvalidSettings, match=r"users\.txt is not UTF-8"):
        read_suppressed_users(path)


BAD_KEYS = ["a:b", "", "schlüssel", "a\nb", "a\tb", "\udcff", "x" * 257, "\x7f"]


@pytest.mark.parametrize("key", BAD_KEYS)
def test_a_key_that_cannot_be_sent_is_refused(key: str) -> None:
    with pytest.raises(InvalidSettings, match=r"of --write-key cannot be sent as Basic user"):
        validate_write_key(key, "--write-key")


@pytest.mark.parametrize("key", ["k", "a b", "x" * 256, "!\"#$%&'()*+,-./;<=>?@[]^_`{|}~\\"])
def test_a_key_of_printable_characters_is_accepted(key: str) -> None:
    validate_write_key(key, "--write-key")
    assert parse_basic_user(b"Basic " + b64encode(f"{key}:".encode())) == key


@pytest.mark.parametrize("key", ["a:b", "schlüssel"])
def test_a_key_in_the_file_that_cannot_be_sent_is_refused(tmp_path: Path, key: str) -> None:
    path = tmp_path / "source.json"
    path.write_text(json.dumps({"write_key": key}))
    with pytest.raises(InvalidSettings, match=r"source\.json cannot be sent as Basic user"):
        load_gate(path)
    assert load_gate(path, "given") == Gate("given")


IDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), min_size=1).filter(
    lambda text: not text.endswith("\r") and text != "\ufeff"
)


def read_users(text: str, end: str) -> frozenset[str]:
    with TemporaryDirectory() as folder:
        path = Path(folder, "users")
        path.write_bytes(text.replace("\n", end).encode())
        return read_suppressed_users(path)


@given(st.sets(IDS), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
def test_ids_are_what_stands_between_line_ends(
    ids: set[str], end: str, ended: bool, marked: bool
) -> None:
    text = "\n".join(["", *sorted(ids), ""] if ended else ["", *sorted(ids)])
    assert read_users("\ufeff" * marked + text, end) == ids


def spell(text: str, escaped: list[bool]) -> str:
    """A JSON string with some of its characters as escapes."""
    spelled = (
        json.dumps(char)[1:-1]
        if escape
        else json.dumps(char, ensure_ascii=False)[1:-1].replace("/", "\\/")
        for char, escape in zip(text, (escaped or [False]) * len(text), strict=False)
    )
    return f'"{"".join(spelled)}"'


@given(IDS, st.lists(st.booleans()), st.sampled_from(["\n", "\r\n"]))
@example("a ", [], "\n")
@example("\u00a0a", [True], "\r\n")
@example("a\u2028b\x0bc\x85\x1e", [True], "\n")
@example("\ufeffa", [True], "\n")
@example("a\rb", [], "\n")
@example("😀", [True], "\n")
def test_whoever_a_file_names_is_suppressed_by_the_loader_and_the_collector(
    user: str, escaped: list[bool], end: str
) -> None:
    listed = read_users(f"\nsomebody\n{user}\n", end)
    assert listed == {"somebody", user}
    body = f'{{"type":"page","messageId":"m","userId":{spell(user, escaped)},'.encode()
    body += b'"receivedAt":"2026-11-01T00:00:00Z"}'
    router = Router(Rules(suppressed=listed))
    router.route_lines([body], 1, valid_utf8=True)
    assert router.excluded == {"page": ExcludedCounts(Call.PAGE, suppressed=1)}
    taken = process_single(parse_single(body), body, listed, Arrival(0, "web"))
    assert (taken.suppressed, taken.lines, taken.rejected) == (1, [], [])
