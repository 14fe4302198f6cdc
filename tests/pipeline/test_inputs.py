"""What a user names as input, from path to rows: nothing is ignored silently."""

import gzip
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from tests import lakes, processes, users

from eventlake.errors import InsufficientPermissions, InvalidSettings, Unavailable
from eventlake.services.read import open_lake


def event(identity: str) -> dict[str, Any]:
    return {
        "type": "track",
        "event": "Order Done",
        "messageId": identity,
        "receivedAt": "2026-11-01T07:00:00Z",
    }


def lines(count: int, prefix: str = "m") -> bytes:
    events = (event(f"{prefix}{n}") for n in range(count))
    return b"".join(json.dumps(one).encode() + b"\n" for one in events)


def archived(lake: Path) -> list[Path]:
    return sorted(path for path in lake.glob("segment-logs/web/*/*") if path.is_file())


# Folders


def test_a_folder_that_cannot_be_listed_fails_before_anything_is_loaded() -> None:
    with users.open_folder() as root:
        for name in ("open/a.jsonl", "closed/b.jsonl"):
            (root / "raw" / name).parent.mkdir(parents=True)
            (root / "raw" / name).write_bytes(lines(2, name))
        (root / "raw/closed").chmod(0)
        with (
            users.unprivileged(),
            pytest.raises(InsufficientPermissions, match=rf"to read {root}/raw/closed"),
        ):
            lakes.load([root / "raw"], root / "lake")
        assert not (root / "lake/segment-data/ledger").exists()


def test_a_linked_folder_is_read(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/a.jsonl").write_bytes(lines(3))
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/day1").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "raw/again").symlink_to(tmp_path / "raw")
    assert lakes.load([tmp_path / "raw"], tmp_path / "lake").counts.landed == 3


def test_what_is_no_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "a.jsonl").write_bytes(lines(1))
    (raw / "gone.jsonl").symlink_to(raw / "nowhere")
    os.mkfifo(raw / "pipe.jsonl")
    monkeypatch.chdir(raw)  # the name of a socket has a limit of about 100 bytes
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket.jsonl")
        found = lakes.load([raw], tmp_path / "lake").passed_over
    assert found == (
        f"{raw}/gone.jsonl (a broken link)",
        f"{raw}/pipe.jsonl (a pipe)",
        f"{raw}/socket.jsonl (a socket)",
    )


def test_a_folder_without_logs_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/notes.txt").write_text("x")
    done = lakes.load([tmp_path / "raw"], tmp_path / "lake")
    assert (done.status, done.passed_over) == ("failed", (f"{tmp_path}/raw/notes.txt",))
    assert done.message.startswith("no raw logs (.gz, .zst, .json, .jsonl, .ndjson, .log) in ")
    assert done.message.endswith(f"{tmp_path}/raw")


def test_a_folder_without_logs_beside_one_with_logs_is_a_warning(tmp_path: Path) -> None:
    for name in ("full", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "full/a.jsonl").write_bytes(lines(1))
    given = [tmp_path / "full", tmp_path / "empty"]
    done = lakes.load(given, tmp_path / "lake")
    assert (done.status, len(done.warnings)) == ("finished", 1)
    assert done.warnings[0].endswith(f"in {tmp_path}/empty")
    again = lakes.load(given, tmp_path / "lake")
    assert (again.status, again.already_loaded) == ("nothing", 1)


# The lake's own files


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: logs, and a lake that has copies of them in its archive."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(lines(5) + b"bad\n")
    monkeypatch.chdir(folder)
    assert lakes.load(["a.jsonl"], Path("lake"), keep_raw=True).counts.landed == 5
    return folder


def test_a_lake_below_the_folder_is_left_out(data: Path) -> None:
    done = lakes.load(["."], Path("lake"))
    assert (done.status, done.already_loaded) == ("nothing", 1)
    assert done.passed_over == (f"{data}/lake (the lake itself)",)
    (data / "link").symlink_to(data / "lake")
    (data / "deep").symlink_to(data / "lake/segment-data/ledger/web")
    (data / "file.json").symlink_to(data / "lake/segment-data/ledger/web/000000000001.json")
    done = lakes.load(["."], Path("lake"))
    assert (done.status, done.already_loaded) == ("nothing", 1)
    assert done.passed_over == tuple(
        f"{data}/{name} (the lake itself)" for name in ("deep", "file.json", "lake", "link")
    )


def test_a_lake_that_is_the_folder_leaves_out_its_own(data: Path) -> None:
    (data / "lake/mine").mkdir()
    (data / "lake/mine/b.jsonl").write_bytes(lines(2, "b"))
    done = lakes.load(["lake"], Path("lake"))
    assert (done.status, done.counts.landed) == ("finished", 2)
    assert done.passed_over == tuple(
        f"{data}/lake/segment-{name} (the lake itself)" for name in ("data", "logs", "stage")
    )


def test_another_lake_below_the_folder_gives_its_archive_alone(data: Path) -> None:
    done = lakes.load(["."], Path("other"))
    assert (done.counts.landed, done.counts.duplicates) == (5, 5)
    assert done.passed_over == tuple(
        f"{data}/lake/segment-{name} (tables of a lake)" for name in ("data", "stage")
    )


@pytest.mark.parametrize(
    "given", ["lake/segment-data", "lake/segment-data/ledger/web/000000000001.json", "lake/s*-data"]
)
def test_the_tables_of_the_lake_are_refused(data: Path, given: str) -> None:
    assert data.exists()
    with pytest.raises(InvalidSettings, match=r"is the lake's own .* segment-logs"):
        lakes.load([given], Path("lake"))


def test_the_archive_is_input_when_it_is_named(data: Path) -> None:
    shutil.rmtree("lake/segment-data")
    done = lakes.load(["lake/segment-logs"], Path("lake"))
    assert (done.status, done.counts.landed) == ("finished", 5)
    assert lakes.sync(data / "lake").message == "nothing to load: 1 file was loaded before"


# A lake that was moved


def test_a_lake_that_was_moved_or_copied_is_its_own(data: Path, tmp_path: Path) -> None:
    os.utime(archived(data / "lake")[0], (1, 1))  # as a copy by another tool has it
    shutil.move(data / "lake", tmp_path / "moved")
    shutil.copytree(tmp_path / "moved", tmp_path / "copied", copy_function=shutil.copy)
    for name in ("moved", "copied"):
        lake = tmp_path / name
        assert open_lake(lake).verify("web").problems == ()
        done = lakes.sync(lake)
        assert (done.status, done.already_loaded) == ("nothing", 1)
        (kept,) = archived(lake)
        rows = open_lake(lake).quarantine("web").to_pylist()
        assert [row["file"] for row in rows] == [kept.relative_to(lake).as_posix()]


def test_odd_names_in_an_archive_survive(tmp_path: Path) -> None:
    lake = tmp_path / "a lake"
    names = ["with space.jsonl", "per%20cent.jsonl", "注文.jsonl", "q?#.jsonl", "\udcff.jsonl"]
    day = lake / "segment-logs/web/1793491200000"
    day.mkdir(parents=True)
    for number, name in enumerate(names):
        (day / name).write_bytes(lines(1, f"{number}-") + b"bad\n")
    assert lakes.sync(lake).counts.landed == len(names)
    shutil.move(lake, tmp_path / "moved")
    assert open_lake(tmp_path / "moved").verify("web").problems == ()
    assert lakes.sync(tmp_path / "moved").already_loaded == len(names)


# Streams

PACKED = {"gz": gzip.compress, "zst": zstandard.ZstdCompressor().compress, "plain": bytes}


def pipe_with(content: bytes) -> int:
    """The reading end of a pipe with content."""
    reader, writer = os.pipe()
    threading.Thread(target=_write_all, args=(writer, content), daemon=True).start()
    return reader


def _write_all(writer: int, content: bytes) -> None:
    with os.fdopen(writer, "wb") as pipe:
        pipe.write(content)


Piped = Callable[[bytes], str]


@pytest.fixture
def piped() -> Iterator[Piped]:
    """Makes paths whose content can be read once, like `<(command)` in a shell."""
    readers: list[int] = []

    def path_of(content: bytes) -> str:
        readers.append(pipe_with(content))
        return f"/dev/fd/{readers[-1]}"

    yield path_of
    for reader in readers:
        os.close(reader)


@pytest.mark.parametrize("kind", PACKED)
def test_a_stream_is_kept_and_landed(tmp_path: Path, piped: Piped, kind: str) -> None:
    lake, content = tmp_path / "lake", PACKED[kind](lines(300))
    done = lakes.load([piped(content)], lake)
    assert (done.status, done.counts.landed, done.files) == ("finished", 300, 1)
    (kept,) = archived(lake)
    assert kept.name.endswith("-stream.zst" if kind == "zst" else "-stream.gz")
    stored = kept.read_bytes()
    assert (gzip.decompress(stored) if kind == "plain" else stored) == content
    assert open_lake(lake).verify("web").problems == ()
    assert lakes.sync(lake).status == "nothing"


def test_a_stream_that_comes_again_was_loaded_before(tmp_path: Path, piped: Piped) -> None:
    lake = tmp_path / "lake"
    lakes.load([piped(lines(3) + b"bad\n")], lake)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_bytes, args=(lines(3) + b"bad\n",))
    writer.start()
    again = lakes.load([fifo], lake)
    writer.join()
    assert (again.status, again.already_loaded) == ("nothing", 1)
    assert len(archived(lake)) == 1
    assert lakes.load([piped(lines(4))], lake).counts.landed == 1


def test_a_stream_that_is_empty_is_a_failure(tmp_path: Path, piped: Piped) -> None:
    done = lakes.load([piped(b"")], tmp_path / "lake")
    assert done.status == "failed"
    assert "/dev/fd/" in done.message
    assert archived(tmp_path / "lake") == []


COMMAND = (
    "import sys; from eventlake.cli.main import main; from tests.lakes import ApiWithoutSpark;"
    " sys.exit(main(api=ApiWithoutSpark()))"
)


def shell(line: str, lake: Path) -> subprocess.CompletedProcess[str]:
    """A line of bash in which $LOAD is the command, without Spark."""
    load = f"{sys.executable} -c '{COMMAND}' load --source web --lake {lake}"
    return subprocess.run(
        ["bash", "-c", line.replace("$LOAD", load)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=processes.PATIENCE,
    )


def test_streams_of_a_shell(tmp_path: Path) -> None:
    lake, log = tmp_path / "lake", tmp_path / "x.gz"
    log.write_bytes(gzip.compress(lines(7)))
    for line, said in [
        (f"zcat {log} | $LOAD -", "landed 7"),
        (f"zcat {log} | $LOAD /dev/stdin", "nothing to load: 1 file was loaded before"),
        (f"$LOAD <(zcat {log})", "nothing to load: 1 file was loaded before"),
        (f"$LOAD - < {log}", "landed 0 + duplicates 7"),
        (f"$LOAD - <<< '{json.dumps(event('here'))}'", "landed 1"),
        (f"$LOAD <(zcat {log}) <(zcat {log} | head -n 1)", "1 file was loaded before"),
    ]:
        ran = shell(line, lake)
        assert ran.returncode == 0, ran.stderr
        assert said in ran.stdout, line
    assert open_lake(lake).verify("web").problems == ()


def test_a_stream_of_a_command_that_failed_is_a_failure(tmp_path: Path) -> None:
    for line in ("false | $LOAD -", "$LOAD - < /dev/null", "$LOAD <(false)"):
        ran = shell(line, tmp_path / "lake")
        assert (ran.returncode, ran.stdout) == (1, "")
        assert "error: no raw logs" in ran.stderr
    closed = shell("$LOAD - <&-", tmp_path / "lake")
    assert closed.returncode == 2
    assert "standard input is closed" in closed.stderr


class Fails:
    """A runner that does not start."""

    def __init__(self, master: str) -> None:
        """Any master is as good as another."""

    def session(self) -> None:
        raise Unavailable("Spark did not start")


def test_a_stream_whose_load_failed_is_named_and_landed_by_sync(
    tmp_path: Path, piped: Piped
) -> None:
    with pytest.raises(Unavailable, match=r"`eventlake sync --source web` loads it"):
        lakes.load([piped(lines(3))], tmp_path / "lake", runner=Fails)
    assert lakes.sync(tmp_path / "lake").counts.landed == 3


class Stop:
    """Ends the process at a step."""

    def __init__(self, stage: str) -> None:
        self.stage = stage

    def step(self, stage: str, done: int, total: int, rows: int) -> None:
        if stage == self.stage:
            os._exit(9)


def load_and_stop(lake: Path, stage: str) -> None:
    reader = pipe_with(lines(4) + b"bad\n")
    lakes.load([f"/dev/fd/{reader}"], lake, Stop(stage))


@pytest.mark.parametrize("stage", ["archive", "read", "commit", "publish"])
@pytest.mark.parametrize("next_run", ["sync", "load"])
def test_a_stream_whose_load_was_killed_lands_once(
    tmp_path: Path, piped: Piped, stage: str, next_run: str
) -> None:
    lake = tmp_path / "lake"
    assert processes.finish(processes.start(load_and_stop, lake, stage)) == 9
    assert len(archived(lake)) == (stage != "archive")
    if next_run == "sync" and stage != "archive":
        lakes.sync(lake)
    lakes.load([piped(lines(4) + b"bad\n")], lake)
    found = lakes.assert_complete(lake)
    assert (found.rows, found.quarantine.total()) == (4, 1)


def load_copy_and_stop(raw: Path, lake: Path) -> None:
    lakes.load([raw], lake, Stop("read"), keep_raw=True)


def test_a_copy_that_a_sync_landed_first_is_not_loaded_again(tmp_path: Path) -> None:
    raw, lake = tmp_path / "a.jsonl", tmp_path / "lake"
    raw.write_bytes(lines(4) + b"bad\n")
    assert processes.finish(processes.start(load_copy_and_stop, raw, lake)) == 9
    assert lakes.sync(lake).counts.landed == 4
    again = lakes.load([raw], lake, keep_raw=True)
    assert (again.status, again.already_loaded) == ("nothing", 1)
    found = lakes.assert_complete(lake)
    assert (found.rows, found.quarantine.total()) == (4, 1)


class Pieces:
    """A pipe that returns few bytes per read."""

    def __init__(self, path: Path, megabytes: int) -> None:
        os.mkfifo(path)
        self.path, self.megabytes = path, megabytes

    def write(self) -> None:
        block = lines(8_000)[: 1 << 20]
        with self.path.open("wb") as pipe:
            for _ in range(self.megabytes):
                pipe.write(block)


def test_memory_is_bounded_while_a_stream_is_copied(tmp_path: Path) -> None:
    pieces = Pieces(tmp_path / "fifo", 200)
    writer = threading.Thread(target=pieces.write)
    writer.start()
    code = (
        "import resource, sys; from eventlake.archive import copy_stream;"
        " from eventlake.clock import SYSTEM_CLOCK;"
        " from eventlake.stores import Disk;"
        " before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        " copy_stream(sys.argv[1], Disk(sys.argv[2]), 'web', SYSTEM_CLOCK);"
        " print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, pieces.path, tmp_path / "lake"],
        capture_output=True,
        check=True,
        timeout=processes.PATIENCE,
    )
    writer.join()
    assert int(ran.stdout) < 60_000  # kilobytes


# Invalid paths


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("", "an empty path: is a variable unset"),
        ("x" * 300, "File name too long"),
        ("a/" * 3000, "File name too long"),
        ("nul\0", "null"),
        ("~nobody-at-all/x", "home"),
        ("file://raw/x.gz", "file:///"),
        ("file://", "an empty path"),
        ("/dev/null", "a device"),
        ("/dev/zero", "a device"),
    ],
)
def test_paths_that_cannot_be(tmp_path: Path, given: str, message: str) -> None:
    with pytest.raises(InvalidSettings, match=message):
        lakes.load([given], tmp_path / "lake")


def test_a_socket_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("s")
        with pytest.raises(InvalidSettings, match="a socket"):
            lakes.load(["s"], tmp_path / "lake")


def test_a_long_name_is_kept_under_a_shorter_one(tmp_path: Path) -> None:
    for name in ("x" * 245 + ".jsonl.gz", "注" * 80 + ".jsonl.gz"):
        (tmp_path / name).write_bytes(gzip.compress(lines(2, name[0])))
    done = lakes.load([tmp_path], tmp_path / "lake", keep_raw=True)
    assert done.counts.landed == 4
    assert all(path.name.endswith(".jsonl.gz") for path in archived(tmp_path / "lake"))


# Sources


def test_a_source_that_the_lake_does_not_have(data: Path) -> None:
    (data / "lake/segment-logs/app/1793491200000").mkdir(parents=True)
    (data / "lake/segment-logs/app/1793491200000/x.jsonl").write_bytes(lines(1))
    with pytest.raises(InvalidSettings, match=r"no source 'wbe' in this lake; known: app, web"):
        lakes.sync(data / "lake", "wbe")
    assert lakes.sync(data / "lake", "app").counts.landed == 1


def test_an_archive_without_logs_is_nothing_to_load(data: Path) -> None:
    lakes.load(["a.jsonl"], Path("two"))
    done = lakes.sync(data / "two")
    assert (done.status, done.message) == ("nothing", "nothing to load: no raw logs found")
