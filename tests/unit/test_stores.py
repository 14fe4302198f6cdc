"""Objects on disk, and a store's refusals in our words."""

import os
import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from obstore import exceptions

from eventlake.errors import EventLakeError, InsufficientPermissions, InvalidSettings, Unavailable
from eventlake.stores import Store, _errors, open_store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "lake"))


def test_what_is_written_is_read(store: Store) -> None:
    store.write("a/b.txt", b"hello")
    store.write("a/c.txt", pa.py_buffer(b"world"))
    assert store.read("a/b.txt") == b"hello"
    assert store.read("a/c.txt") == b"world"
    assert bytes(store.read_range("a/b.txt", 1, 3)) == b"ell"
    assert store.open("a/b.txt").read() == b"hello"
    store.write("a/b.txt", b"again")
    assert store.read("a/b.txt") == b"again"


def test_a_file_written_piece_by_piece(store: Store) -> None:
    with store.writing("x/y.bin") as file:
        file.write(b"one ")
        file.write(b"two")
    assert store.read("x/y.bin") == b"one two"


def test_created_once(store: Store) -> None:
    assert store.create("a", b"first")
    assert not store.create("a", b"second")
    assert store.read("a") == b"first"


def test_whether_it_is_there(store: Store) -> None:
    assert not store.exists("a/b")
    store.write("a/b", b"")
    assert store.exists("a/b")
    assert not store.exists("a")


def test_a_move_may_be_repeated(store: Store) -> None:
    store.write("stage/x", b"1")
    store.move("stage/x", "data/x")
    store.move("stage/x", "data/x")
    assert store.read("data/x") == b"1"
    assert not store.exists("stage/x")


def test_what_a_listing_tells(store: Store) -> None:
    for path in ("a/2", "a/1", "a/sub/3", "ab/4"):
        store.write(path, b"xyz")
    assert store.names("a") == (["sub"], ["1", "2"])
    assert store.names("nowhere") == ([], [])
    assert sorted((o.path, o.size) for o in store.objects("a")) == [
        ("a/1", 3),
        ("a/2", 3),
        ("a/sub/3", 3),
    ]
    assert all(o.modified.tzinfo for o in store.objects("a"))


def test_a_deletion_may_be_repeated(store: Store) -> None:
    store.write("a/b", b"")
    store.delete(["a/b", "a/c"])
    store.delete(["a/b"])
    assert list(store.objects("a")) == []


def test_a_folder_is_pruned_with_halves_of_objects_and_others_stay(store: Store) -> None:
    root = Path(store.root)
    (root / "a/empty/below").mkdir(parents=True)
    (root / "a/half#1").write_bytes(b"ha")
    store.write("ab/full/x", b"")
    store.prune("a")
    assert not (root / "a").exists()
    assert store.exists("ab/full/x")
    store.prune("nowhere")


def test_a_store_travels_to_workers(store: Store) -> None:
    store.write("a", b"x")
    assert pickle.loads(pickle.dumps(store)).read("a") == b"x"


# Refusals


@pytest.mark.parametrize(
    ("verb", "call"),
    [
        ("read", lambda store: store.read("gone")),
        ("read", lambda store: store.open("gone")),
        ("read", lambda store: store.read_range("gone", 0, 1)),
        ("move", lambda store: store.move("gone", "to")),
    ],
)
def test_what_is_not_there(store: Store, verb: str, call) -> None:
    with pytest.raises(InvalidSettings, match=f"cannot {verb} gone: it does not exist") as caught:
        call(store)
    assert isinstance(caught.value.__cause__, FileNotFoundError)


@pytest.mark.parametrize(
    ("problem", "kind", "message"),
    [
        (
            PermissionError(13, "no"),
            InsufficientPermissions,
            "may not read x: grant that and run again",
        ),
        (exceptions.PermissionDeniedError("no"), InsufficientPermissions, "may not read x"),
        (FileNotFoundError("x"), InvalidSettings, "cannot read x: it does not exist"),
        (OSError(28, "No space left on device"), Unavailable, "could not read x: .*No space left"),
        (exceptions.GenericError("boom\nand more"), Unavailable, "could not read x: boom$"),
    ],
)
def test_a_refusal_in_our_words(
    problem: Exception, kind: type[EventLakeError], message: str
) -> None:
    with pytest.raises(kind, match=message) as caught, _errors("read", "x"):
        raise problem
    assert caught.value.__cause__ is problem


def test_our_own_errors_pass_through() -> None:
    ours = Unavailable("as it is")
    with pytest.raises(Unavailable) as caught, _errors("read", "x"):
        raise ours
    assert caught.value is ours


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything")
def test_a_folder_that_may_not_be_written(store: Store) -> None:
    root = Path(store.root)
    store.write("a/b", b"")
    (root / "a").chmod(0o500)
    try:
        with pytest.raises(InsufficientPermissions, match="may not write a/c"):
            store.write("a/c", b"")
    finally:
        (root / "a").chmod(0o700)


# Which lake


def test_a_lake_by_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a b").mkdir()
    for given in ("a b", tmp_path / "a b", f"file://{tmp_path}/a%20b", "~/a b", "./x/../a b"):
        assert open_store(given, make=False) == Store(str(tmp_path / "a b"))


@pytest.mark.parametrize(
    ("lake", "message"),
    [
        ("s3://bucket/lake", "lake is 's3://bucket/lake': a folder on disk is what works today"),
        ("a-file", "lake is '.*a-file': it is a file, and a lake is a folder"),
        ("nowhere", "lake is '.*nowhere': there is no such folder"),
    ],
)
def test_what_is_no_lake(lake: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a-file").write_text("")
    given = lake if "://" in lake else tmp_path / lake
    with pytest.raises(InvalidSettings, match=message):
        open_store(given, make=False)


def test_who_lands_events_may_make_a_lake(tmp_path: Path) -> None:
    open_store(tmp_path / "new", make=True).write("a", b"")
    assert (tmp_path / "new/a").exists()
