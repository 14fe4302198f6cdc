"""Raw logs: which files a user's paths name, how one is opened and kept (section 1)."""

import gzip
import json
import os
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

import pytest

from eventlake.archive import LAKE, READ_BYTES, copy_inputs, find_inputs, local_path, open_input
from eventlake.errors import Conflict, InvalidSettings
from eventlake.model.commit import Input
from eventlake.stores import Disk, Store

EVENT = {"type": "track", "event": "A", "messageId": "m", "receivedAt": "2026-11-01T23:30:00-02:00"}


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as one finds it; nobody changes it."""
    below = tmp_path_factory.mktemp("archive") / "raw"
    names = [
        "1730419200000/a.gz", "1730419200000/b.zst", "2026-11-01/c.json", "deep/er/d.jsonl",
        "e.ndjson", "f.log", "G.JSON.GZ", "h",
        "README.md", "data.csv", "x.parquet", "_SUCCESS", ".hidden.gz", "_part.json", "gz",
        "with space.gz", "hash#mark.gz", "per%20cent.gz", "注文.gz", "q?.gz", "[1].gz", "a+b.gz",
    ]  # fmt: skip
    for name in names:
        path = below / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return below


def names(found: tuple[Input, ...], below: Path) -> set[str]:
    return {str(local_path(one.uri).relative_to(below)) for one in found}


LOGS = {
    "1730419200000/a.gz", "1730419200000/b.zst", "2026-11-01/c.json", "deep/er/d.jsonl", "e.ndjson",
    "f.log", "G.JSON.GZ", "with space.gz", "hash#mark.gz", "per%20cent.gz", "注文.gz", "q?.gz",
    "[1].gz", "a+b.gz",
}  # fmt: skip


def test_the_logs_of_a_folder_with_other_things_in_it(raw: Path) -> None:
    found = find_inputs([raw])
    assert names(found.inputs, raw) == LOGS
    others = {
        "README.md",
        "data.csv",
        "x.parquet",
        "_SUCCESS",
        ".hidden.gz",
        "_part.json",
        "gz",
        "h",
    }
    assert {str(Path(path).relative_to(raw)) for path in found.passed_over} == others
    assert [one.uri for one in found.inputs] == sorted(one.uri for one in found.inputs)


def test_every_name_survives_its_address(raw: Path) -> None:
    for one in find_inputs([raw]).inputs:
        path = local_path(one.uri)
        assert b"".join(open_input(one.uri)).decode() == str(path.relative_to(raw))
        assert one.size == path.stat().st_size


def test_a_name_that_is_no_utf8(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.json"
    Path(os.fsdecode(path)).write_text("x")
    (one,) = find_inputs([tmp_path]).inputs
    assert b"".join(open_input(one.uri)) == b"x"


@pytest.mark.parametrize("name", ["README.md", "h", ".hidden.gz", "_part.json", "_SUCCESS", "gz"])
def test_a_file_that_is_named_is_always_taken(raw: Path, name: str) -> None:
    found = find_inputs([raw / name])
    assert names(found.inputs, raw) == {name}
    assert found.passed_over == ()


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*%*.gz", {"per%20cent.gz"}),
        ("*[#+ ]*.gz", {"with space.gz", "hash#mark.gz", "a+b.gz"}),
        ("**/*.jsonl", {"deep/er/d.jsonl"}),
        ("17304*", {"1730419200000/a.gz", "1730419200000/b.zst"}),
        ("*/c.json", {"2026-11-01/c.json"}),
        ("[ef].*", {"e.ndjson", "f.log"}),
        ("README*", {"README.md"}),
        # A name with the signs of a pattern in it is a name first.
        ("[1].gz", {"[1].gz"}),
        ("q?.gz", {"q?.gz"}),
    ],
)  # fmt: skip
def test_patterns(raw: Path, pattern: str, expected: set[str]) -> None:
    assert names(find_inputs([f"{raw}/{pattern}"]).inputs, raw) == expected


def test_a_file_that_several_paths_name_is_taken_once(raw: Path) -> None:
    twice = find_inputs([raw, raw / "e.ndjson", f"{raw}/*.ndjson", f"{raw}/../raw/e.ndjson"])
    assert twice.inputs == find_inputs([raw]).inputs


def test_a_link_is_the_file_that_it_leads_to(raw: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.gz"
    link.symlink_to(raw / "e.ndjson")
    assert find_inputs([link]).inputs == find_inputs([raw / "e.ndjson"]).inputs


def test_relative_paths_and_home(raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(raw)
    monkeypatch.setenv("HOME", str(raw))
    whole = find_inputs([raw / "e.ndjson"]).inputs
    for given in ("e.ndjson", "./e.ndjson", "~/e.ndjson", f"file://{raw}/e.ndjson"):
        assert find_inputs([given]).inputs == whole


@pytest.mark.parametrize("given", ["nowhere", "*.nothing", "nowhere/*.gz"])
def test_a_path_that_names_nothing(raw: Path, given: str) -> None:
    with pytest.raises(InvalidSettings, match=r"there is no file, folder or match for '.*'"):
        find_inputs([raw, f"{raw}/{given}"])


def test_an_empty_folder(tmp_path: Path) -> None:
    assert find_inputs([tmp_path]).inputs == ()


@pytest.mark.parametrize("given", ["broken.gz", "*.gz"])
def test_a_link_that_leads_nowhere(tmp_path: Path, given: str) -> None:
    (tmp_path / "broken.gz").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InvalidSettings):
        find_inputs([tmp_path / given])


def test_an_address_with_escapes(raw: Path) -> None:
    uri = (raw / "with space.gz").as_uri()
    assert [one.uri for one in find_inputs([uri]).inputs] == [uri]


def test_a_changed_file_has_another_fingerprint(tmp_path: Path) -> None:
    path = tmp_path / "e.ndjson"
    path.write_text("one")
    (before,) = find_inputs([path]).inputs
    assert find_inputs([path]).inputs == (before,)
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
    (touched,) = find_inputs([path]).inputs
    path.write_text("other")
    (after,) = find_inputs([path]).inputs
    assert len({before.fingerprint, touched.fingerprint, after.fingerprint}) == 3
    assert before.uri == touched.uri == after.uri


# Opening


def test_a_log_in_pieces(tmp_path: Path) -> None:
    data = os.urandom(READ_BYTES * 2 + 5)
    (tmp_path / "x.gz").write_bytes(data)
    pieces = list(open_input((tmp_path / "x.gz").as_uri()))
    assert [len(piece) for piece in pieces] == [READ_BYTES, READ_BYTES, 5]
    assert b"".join(pieces) == data


def test_a_log_that_has_gone(tmp_path: Path) -> None:
    with pytest.raises(Conflict, match=r"x\.gz was deleted after the run was planned"):
        list(open_input((tmp_path / "x.gz").as_uri()))


# Keeping


def kept_as(store: Store, source: Path) -> Input:
    (copy,) = copy_inputs(find_inputs([source]).inputs, store, "src1")
    return copy


def test_a_copy_lies_in_the_archive_by_the_day_of_its_first_event(tmp_path: Path) -> None:
    store, source = Disk(str(tmp_path / "lake")), tmp_path / "a log (1).gz"
    source.write_bytes(gzip.compress(b"\n[]\n" + json.dumps(EVENT).encode()))
    (original,) = find_inputs([source]).inputs
    copy = kept_as(store, source)
    day = int(datetime(2026, 11, 2, tzinfo=UTC).timestamp()) * 1000
    path = PurePosixPath(copy.uri.removeprefix(LAKE))
    assert path.parts[:3] == ("segment-logs", "src1", str(day))
    assert path.name.endswith("-a-log--1-.gz")
    assert store.read(str(path)) == source.read_bytes()
    assert copy.origin == (original.uri, original.fingerprint)
    assert source.exists()


def test_a_copy_is_made_once(tmp_path: Path) -> None:
    store, source = Disk(str(tmp_path / "lake")), tmp_path / "a.json"
    source.write_text(json.dumps(EVENT))
    once, again = kept_as(store, source), kept_as(store, source)
    assert once == again
    assert len(list(store.objects("segment-logs"))) == 1
    source.write_text(json.dumps(EVENT) + "\n")
    assert kept_as(store, source).uri != once.uri


def test_a_log_without_an_event_lies_by_its_own_date(tmp_path: Path) -> None:
    store, source = Disk(str(tmp_path / "lake")), tmp_path / "a.json"
    source.write_text("nothing")
    os.utime(source, (86400 * 365.5, 86400 * 365.5))
    path = PurePosixPath(kept_as(store, source).uri.removeprefix(LAKE))
    assert path.parts[2] == str(86_400_000 * 365)


def test_two_logs_of_one_name_are_both_kept(tmp_path: Path) -> None:
    store = Disk(str(tmp_path / "lake"))
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.json").write_text(json.dumps(EVENT))
    copies = copy_inputs(find_inputs([tmp_path / "x", tmp_path / "y"]).inputs, store, "src1")
    assert len({copy.uri for copy in copies}) == 2


def test_copies_are_in_the_order_of_their_addresses(tmp_path: Path) -> None:
    # Of events received together the first in the archive counts, and the archive is the copies.
    store, raw = Disk(str(tmp_path / "lake")), tmp_path / "raw"
    raw.mkdir()
    for n in range(8):
        (raw / f"{n}.json").write_text(json.dumps(EVENT))
    copies = [copy.uri for copy in copy_inputs(find_inputs([raw]).inputs, store, "src1")]
    assert copies == sorted(copies)
