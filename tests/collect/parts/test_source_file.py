"""A source's own file with its write key."""

import json
import os
from base64 import b64encode
from pathlib import Path

import pytest

from eventlake.collect.keys import parse_basic_user, validate_write_key
from eventlake.collect.source_file import SourceAccess, WatchedFile, load_access
from eventlake.errors import InvalidSettings

GIVEN = ("given", "another")


def test_a_key_is_generated_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "source.json"
    first = load_access(path)
    assert len(first.write_keys[0]) >= 32
    assert load_access(path) == first
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["source.json"]


def test_a_source_can_be_disabled(tmp_path: Path) -> None:
    path = tmp_path / "source.json"
    path.write_text('{"write_key":"k","enabled":false}')
    assert not load_access(path).enabled
    assert not load_access(path, GIVEN).enabled
    path.write_text('{"enabled":false}')
    assert load_access(path, GIVEN) == SourceAccess(GIVEN, enabled=False)
    with pytest.raises(InvalidSettings, match="has no write_key"):
        load_access(path)


def test_a_key_from_the_command_line_is_not_written_to_disk(tmp_path: Path) -> None:
    assert load_access(tmp_path / "source.json", GIVEN) == SourceAccess(GIVEN)
    assert not list(tmp_path.iterdir())


def test_an_invalid_file_is_named_without_its_content(tmp_path: Path) -> None:
    path = tmp_path / "source.json"
    path.write_text('{"write_key":"secret"')
    with pytest.raises(InvalidSettings, match=r"source\.json") as refused:
        load_access(path)
    assert "secret" not in str(refused.value)


def test_a_change_of_a_file_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text("a\n\nb\n")
    watched = WatchedFile(path)
    assert [watched.has_changed(), watched.has_changed()] == [True, False]
    os.utime(path, (5, 5))
    assert watched.has_changed()
    path.unlink()
    assert not watched.has_changed()


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
        load_access(path)
    assert load_access(path, GIVEN) == SourceAccess(GIVEN)
