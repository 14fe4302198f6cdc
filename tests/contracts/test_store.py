"""What every store does: one suite, run on disk and in a bucket."""

import pickle
import resource
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from eventlake.errors import InvalidSettings
from eventlake.lakes import open_store
from eventlake.stores import Disk, Range, Store
from tests.aws.moto import Aws, aws
from tests.azure.azurite import Azure, azure
from tests.stores import WatchedDisk

__all__ = ["aws", "azure"]


@pytest.fixture(params=["disk", "s3", "adls"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "disk":
        return Disk(str(tmp_path / "lake"))
    here: Aws | Azure = request.getfixturevalue("aws" if request.param == "s3" else "azure")
    return open_store(here.settings())


def test_what_is_written_is_read(store: Store) -> None:
    store.write("a/b.txt", b"hello")
    store.write("a/c.txt", pa.py_buffer(b"world"))
    assert store.read("a/b.txt") == b"hello"
    assert store.read("a/c.txt") == b"world"
    assert [bytes(part) for part in store.read_ranges([Range("a/b.txt", 1, 3)])] == [b"ell"]
    assert store.open("a/b.txt").read() == b"hello"
    store.write("a/b.txt", b"again")
    assert store.read("a/b.txt") == b"again"


def test_a_file_written_piece_by_piece(store: Store) -> None:
    with store.open_staged("x/y.bin") as file:
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


def test_an_object_is_published_as_often_as_it_takes(store: Store) -> None:
    store.write("stage/x", b"1")
    for _ in range(2):
        store.publish("stage/x", "data/x")
    store.delete(["stage/x"])
    store.publish("stage/x", "data/x")
    assert store.read("data/x") == b"1"


def test_parts_come_in_the_order_that_they_are_asked_for(store: Store) -> None:
    for name in "abc":
        store.write_staged(name, pa.py_buffer(name.encode() * 100))
    ranges = [Range("abc"[n % 3], n % 50, 1 + n % 7) for n in range(60)]
    found = [bytes(part) for part in store.read_ranges(ranges)]
    assert found == [path.encode() * size for path, _, size in ranges]


def test_a_file_is_opened_once_for_its_parts(tmp_path: Path) -> None:
    opened = list[str]()
    store = WatchedDisk(
        str(tmp_path), lambda name, path: opened.append(path) if name == "open" else None
    )
    for name in "abc":
        store.write_staged(name, pa.py_buffer(name.encode() * 100))
    list(store.read_ranges(Range("abc"[n % 3], n, 1) for n in range(60)))
    assert opened == ["a", "b", "c"]


def test_parts_of_more_objects_than_may_be_open_at_a_time(tmp_path: Path) -> None:
    store = Disk(str(tmp_path))
    for number in range(200):
        store.write_staged(f"{number}", pa.py_buffer(b"%d" % number))
    held = resource.getrlimit(resource.RLIMIT_NOFILE)
    ranges = [Range(f"{number}", 0, len(f"{number}")) for number in range(200)] * 2
    highest = max(int(file.name) for file in Path("/dev/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 100, held[1]))
    try:
        parts = list(store.read_ranges(ranges))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, held)
    assert [bytes(part) for part in parts] == [path.encode() for path, _, _ in ranges]


def test_a_part_that_cannot_be_read_is_told(store: Store) -> None:
    store.write("a", b"x")
    ranges = [Range("a", 0, 1), Range("gone", 0, 1), Range("a", 0, 1)]
    with pytest.raises(InvalidSettings, match="gone: it does not exist"):
        list(store.read_ranges(ranges))


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


def test_a_store_travels_to_workers(store: Store) -> None:
    store.write("a", b"x")
    assert pickle.loads(pickle.dumps(store)).read("a") == b"x"


def test_a_file_has_its_name_only_when_it_is_whole(store: Store) -> None:
    with store.write_durably("x/y.bin") as file:
        file.write(b"one ")
        assert not store.exists("x/y.bin")
        file.write(b"two")
    assert store.read("x/y.bin") == b"one two"
    assert [found.path for found in store.objects("x")] == ["x/y.bin"]


def test_a_file_whose_writer_fails_is_no_object(store: Store) -> None:
    def fail() -> None:
        with store.write_durably("x/y.bin") as file:
            file.write(b"one ")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not store.exists("x/y.bin")


def test_a_large_object(store: Store) -> None:
    data = bytes(range(256)) * (12 << 12)  # more than a part of an upload
    with store.open_staged("big") as file:
        file.write(data)
    assert b"".join(store.stream("big")) == data
    with store.open("big") as file:
        assert file.size() == len(data)
        file.seek(len(data) - 300)
        assert file.read() == data[-300:]
        file.seek(5)
        assert file.read(3) == data[5:8]


def test_what_is_known_of_an_object(store: Store) -> None:
    assert store.find("a/b") is None
    store.write("a/b", b"one")
    first = store.find("a/b")
    assert first is not None
    assert (first.path, first.size) == ("a/b", 3)
    assert list(store.objects("a")) == [first]
    store.write("a/b", b"two")
    second = store.find("a/b")
    assert second is not None
    assert second.etag != first.etag


def test_a_change_is_made_of_what_is_there(store: Store) -> None:
    store.update("a/b", lambda known: b"new" if known is None else b"old")
    store.update("a/b", lambda known: (known or b"") + b"er")
    store.update("a/b", lambda known: None)
    assert store.read("a/b") == b"newer"


def test_changes_of_many_at_once_are_all_made(store: Store) -> None:
    def add(number: int) -> None:
        again: Store = pickle.loads(pickle.dumps(store))
        again.update("a/b", lambda known: (known or b"") + b"%d," % number)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(40)))
    assert sorted(map(int, store.read("a/b").decode().strip(",").split(","))) == list(range(40))


def test_arrow_reads_the_same(store: Store) -> None:
    store.write("a/b.txt", b"hello")
    filesystem, root = store.filesystem()
    assert filesystem.open_input_stream(f"{root}/a/b.txt").read() == b"hello"


def test_odd_names(store: Store) -> None:
    for name in ("a b/c+d.gz", "a b/é.gz", "a b/x=1&y?.gz"):
        store.write(name, name.encode())
        assert store.read(name) == name.encode()
    assert sorted(found.path for found in store.objects("a b")) == [
        "a b/c+d.gz",
        "a b/x=1&y?.gz",
        "a b/é.gz",
    ]


def test_settled_and_secured(store: Store) -> None:
    store.write("a/b", b"x")
    store.fsync("a/b")
    store.fsync_with_parents("a/b")
    store.remove_folder("nowhere")
    assert store.read("a/b") == b"x"


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.read("gone"),
        lambda store: store.open("gone"),
        lambda store: list(store.read_ranges([Range("gone", 0, 1)])),
        lambda store: list(store.stream("gone")),
        lambda store: store.publish("gone", "to"),
    ],
)
def test_what_is_not_there(store: Store, call: Callable[[Store], object]) -> None:
    with pytest.raises(InvalidSettings, match=r"cannot \w+ \S*(gone|to): it does not") as caught:
        call(store)
    assert isinstance(caught.value.__cause__, FileNotFoundError)
