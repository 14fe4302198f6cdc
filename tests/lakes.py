"""Lakes for tests: loads without a JVM, and the contents of lakes to compare."""

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import eventlake.services.compact
import eventlake.services.load
import eventlake.services.redrive
import eventlake.services.replay
from eventlake.cli.main import main
from eventlake.lake import Lake
from eventlake.lakes.aws_settings import AwsSettings
from eventlake.lakes.azure_settings import AzureSettings
from eventlake.lakes.local_settings import LocalSettings
from eventlake.model.settings import SourceSettings
from eventlake.ports import NoProgress, Progress, SparkProvider
from eventlake.runners.local import LocalSpark
from eventlake.sample.spec import SampleSpec
from eventlake.sample.write import make_sample
from eventlake.services.load import LoadResult
from eventlake.services.read import open_lake
from tests.aws import copies as aws_copies
from tests.azure import copies as azure_copies
from tests.processes import Ran, finish, start

SOURCE = "web"
SETTINGS = SourceSettings(source=SOURCE)

Place = Path | LocalSettings | AwsSettings | AzureSettings
"""Where a lake is."""


def delta(path: Path) -> LocalSettings:
    """A lake on disk with Delta tables."""
    return LocalSettings(path=str(path), format="delta")


# Loads


SparkRunner = LocalSpark
"""The runner of users: Spark in a JVM."""


class InlineRunner:
    """Runs tasks one after the other in this process, without a JVM."""

    def __init__(self, master: str = "", settings: object = None, parallelism: int = 2) -> None:
        """The master and the settings are ignored."""
        self.parallelism = parallelism

    def session(self) -> "InlineRunner":
        return self

    def range(self, start: int, end: int, step: int, partitions: int) -> "Frame":
        return Frame(end)

    def stop(self) -> None:
        """Nothing goes on after an exception."""


@dataclass
class Frame:
    """The part of a Spark data frame that tasks need."""

    count: int
    body: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]] = iter

    def mapInArrow(self, body: Any, schema: str) -> "Frame":  # noqa: N802 - Spark's own name
        return Frame(self.count, body)

    def collect(self) -> list[tuple[int, bytes]]:
        numbers = (pa.record_batch([pa.array([n])], ["id"]) for n in range(self.count))
        columns = pa.Table.from_batches(list(self.body(numbers))).columns
        return list(zip(*(column.to_pylist() for column in columns), strict=True))


def load(
    paths: Sequence[str | Path],
    lake: Place | Lake,
    progress: Progress | None = None,
    *,
    runner: Callable[[str], SparkProvider] = InlineRunner,
    settings: SourceSettings = SETTINGS,
    master: str = "local[2]",
    **options: Any,
) -> LoadResult:
    """Run `services.load.load`, by default without Spark."""
    return eventlake.services.load.load(
        paths, lake=lake, settings=settings, progress=progress, where=runner(master), **options
    )


def sync(lake: Place, source: str = SOURCE, **options: Any) -> LoadResult:
    """Run `services.load.sync` without Spark."""
    return eventlake.services.load.sync(source, lake=lake, where=InlineRunner(), **options)


@dataclass(frozen=True)
class ApiWithoutSpark:
    """The Python API, with loads and syncs that run without Spark and report to `progress`."""

    progress: Progress | None = None

    def load(self, *given: Any, **options: Any) -> LoadResult:
        return eventlake.services.load.load(*given, **{**options, **self._changes()})

    def sync(self, *given: Any, **options: Any) -> LoadResult:
        return eventlake.services.load.sync(*given, **{**options, **self._changes()})

    def replay(self, *given: Any, **options: Any) -> LoadResult:
        return eventlake.services.replay.replay(*given, **{**options, **self._changes()})

    def redrive(self, *given: Any, **options: Any) -> LoadResult:
        return eventlake.services.redrive.redrive(*given, **{**options, **self._changes()})

    def compact(self, *given: Any, **options: Any) -> Any:
        return eventlake.services.compact.compact(*given, **{**options, **self._changes()})

    def _changes(self) -> dict[str, Any]:
        return {"where": InlineRunner(), **({"progress": self.progress} if self.progress else {})}

    def __getattr__(self, name: str) -> Any:
        return getattr(eventlake, name)


@dataclass
class Recorder:
    """Records the progress steps of a run."""

    steps: list[tuple[str, int]] = field(default_factory=list)

    def step(self, stage: str, done: int, total: int, rows: int) -> None:
        self.steps.append((stage, done))


class AtStage(Recorder):
    """Calls a function when a stage begins, for the first `times` times."""

    def __init__(self, stage: str, work: Callable[[], object], times: int = 1) -> None:
        super().__init__()
        self.stage, self.work, self.times = stage, work, times

    def step(self, stage: str, done: int, total: int, rows: int) -> None:
        super().step(stage, done, total, rows)
        if stage == self.stage and self.times:
            self.times -= 1
            self.work()


def small_sample(folder: Path, seed: int = 7, **changes: Any) -> list[Path]:
    """Three hours, a file each: 6 tables, with duplicates and invalid lines."""
    options = {"events": 240, "types": 6, "hours": 3, "duplicates": 0.1, "bad": 0.03} | changes
    make_sample(SampleSpec(seed=seed, **options), folder)
    return sorted(folder.iterdir())


def command_without_spark(
    *arguments: object, output: Path, progress: Progress | None = None
) -> BaseProcess:
    """Start the command in a process of its own, without Spark; `read_output` waits for it."""
    return start(_command, list(map(str, arguments)), output, progress)


def _command(arguments: list[str], output: Path, progress: Progress | None) -> None:
    with (
        output.with_suffix(".out").open("w") as out,
        output.with_suffix(".err").open("w") as err,
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        code = main(arguments, ApiWithoutSpark(progress or NoProgress()))
    sys.exit(code)


def read_output(process: BaseProcess, output: Path) -> Ran:
    """Wait for a command without Spark; return its exit code and output."""
    code = finish(process)
    return Ran(code, output.with_suffix(".out").read_text(), output.with_suffix(".err").read_text())


# Contents of lakes


@dataclass(frozen=True)
class LakeContents:
    """What a lake has of a source, without what may differ between equal lakes."""

    tables: dict[str, Counter[Any]]
    catalog: dict[str, Any]
    reported: set[str]
    """Sources with registered reports."""
    inputs: list[tuple[str, str]]
    quarantine: Counter[Any]
    reports: list[Any]
    failures: list[str]
    ids: Counter[Any]
    strays: list[str]
    problems: tuple[str, ...]

    @property
    def rows(self) -> int:
        return sum(rows.total() for rows in self.tables.values())


@contextmanager
def on_disk(lake: Place) -> Iterator[Path]:
    """A folder with the objects of a lake."""
    if isinstance(lake, Path | LocalSettings):
        yield lake if isinstance(lake, Path) else Path(lake.path)
        return
    with TemporaryDirectory(prefix="copy-") as folder:
        yield _copies(lake).copied(lake, Path(folder))


def _copies(lake: AwsSettings | AzureSettings) -> Any:
    return aws_copies if isinstance(lake, AwsSettings) else azure_copies


def read_contents(lake: Place) -> LakeContents:
    """Read a lake with nothing but JSON and Parquet readers, and run `verify`."""
    problems = open_lake(lake).verify(SOURCE).problems
    with on_disk(lake) as folder:
        return read_folder(folder, problems)


def read_folder(lake: Path, problems: tuple[str, ...] = ()) -> LakeContents:
    """Read a lake on disk without `verify`."""
    root = lake / "segment-data"
    commits = read_commits(lake)
    runs = [commit["run_id"] for commit in commits]
    reports = {
        path.parent.name[7:]: path for path in root.glob(f"reports/*/source={SOURCE}/*/report.json")
    }
    return LakeContents(
        tables=_tables(lake, commits),
        catalog={path.stem: _catalog(path) for path in root.glob(f"catalog/{SOURCE}/*.json")},
        reported=_reported(root / "catalog/__segment_datalake/sync_reports.json"),
        inputs=sorted((i["uri"], i["fingerprint"]) for c in commits for i in c["inputs"]),
        quarantine=_quarantine(lake, commits),
        reports=[_report(reports[run]) if run in reports else "none" for run in runs],
        failures=[_failure(reports[run]) for run in sorted(reports.keys() - set(runs))],
        ids=_ids(lake, commits),
        strays=strays(lake),
        problems=problems,
    )


def read_commits(lake: Place) -> list[Any]:
    """The commits of the source, as JSON."""
    if isinstance(lake, LocalSettings):
        return read_commits(Path(lake.path))
    if not isinstance(lake, Path):
        with TemporaryDirectory(prefix="copy-") as folder:
            _copies(lake).copy_objects(lake, Path(folder), f"segment-data/ledger/{SOURCE}/0")
            return read_commits(Path(folder))
    ledger = lake / "segment-data/ledger" / SOURCE
    return [json.loads(path.read_bytes()) for path in sorted(ledger.glob("*.json"))]


def strays(lake: Place) -> list[str]:
    """List objects that no commit names, stages, and incomplete files."""
    with on_disk(lake) as folder:
        return _strays(folder)


def _strays(lake: Path) -> list[str]:
    commits = read_commits(lake)
    known = {path for commit in commits for path in _paths(commit)} - _removed(commits)
    own = (f"data/{SOURCE}", f"quarantine/{SOURCE}", f"ledger/{SOURCE}/ids")
    places = (*(f"segment-data/{one}" for one in own), f"staging/{SOURCE}/segment_type=*")
    folders = (folder for place in places for folder in lake.glob(place))
    files = (file for folder in folders for file in folder.rglob("*"))
    found = {file.relative_to(lake).as_posix() for file in files if file.is_file()}
    found -= _kept(commits)
    staged = {path.relative_to(lake).as_posix() for path in lake.glob("segment-stage/*")}
    halves = {path.relative_to(lake).as_posix() for path in lake.rglob("*#*")}
    # What is in a Delta log is deltalake's; of a killed process also a half that no reader opens.
    ours = (path for path in found - known | staged | halves if "/_delta_log/" not in path)
    return sorted(ours)


def _paths(commit: Any) -> Iterator[str]:
    """The paths of a commit's files."""
    for table in commit.get("tables", ()):
        yield from (file["path"] for file in table.get("adds", ()))
    yield from (file["path"] for file in commit.get("ids", ()))
    yield from (file["path"] for file in commit.get("removed_ids", ()))
    yield from (merge["file"]["path"] for merge in commit.get("merges", ()))
    yield from _objects(commit)


def _objects(commit: Any) -> Iterator[str]:
    """The paths of a commit's quarantine file and of the objects that it has rewritten."""
    if quarantine := commit.get("quarantine"):
        yield quarantine["path"]
    yield from (one["new_path"] for one in commit.get("rewrites", ()) if "new_path" in one)


def _removed(commits: list[Any]) -> set[str]:
    """Paths of the files that commits removed."""
    tables = (table for commit in commits for table in commit.get("tables", ()))
    files = {file["path"] for table in tables for file in table.get("removes", ())}
    rewrites = {one["path"] for commit in commits for one in commit.get("rewrites", ())}
    return files.union(rewrites, *(commit.get("deletes", ()) for commit in commits))


def _kept(commits: list[Any]) -> set[str]:
    """Paths of removed files that may still be there, for readers of older versions."""
    kept: set[str] = set()
    for commit in commits:
        if commit.get("keeps_removed"):
            kept |= _removed([{"tables": commit.get("tables", ())}])
        kept -= set(commit.get("deletes", ()))
    return kept


def _tables(lake: Path, commits: list[Any]) -> dict[str, Counter[Any]]:
    tables: dict[str, Counter[Any]] = {}
    removed = _removed(commits)
    for done in (done for commit in commits for done in commit.get("tables", ())):
        for file in done.get("adds", ()):
            if file["path"] in removed:
                continue
            rows = tables.setdefault(done["table"]["name"], Counter())
            rows.update(_rows(lake / file["path"], tuple(file["partition"].items())))
    return tables


def _rows(path: Path, partition: tuple[tuple[str, str], ...]) -> Iterator[Any]:
    """Rows as tuples of column, type and value, without nulls."""
    if not path.exists():
        yield f"{path} is missing"
        return
    table = pq.read_table(path, partitioning=None)
    types = {column.name: str(column.type) for column in table.schema}
    for row in table.to_pylist():
        values = ((name, types[name], v) for name, v in sorted(row.items()) if v is not None)
        yield (*values, *partition)


def _catalog(path: Path) -> Any:
    table = json.loads(path.read_bytes())
    location = re.sub("^staging/", "segment-data/data/", table["location"])
    return table["columns"], table["partition_columns"], table.get("partitions"), location


def _reported(path: Path) -> set[str]:
    return {one["source_id"] for one in json.loads(path.read_bytes())["partitions"]}


def _quarantine(lake: Path, commits: list[Any]) -> Counter[Any]:
    rows: Counter[Any] = Counter()
    for path in {path for commit in commits for path in _objects(commit)} - _removed(commits):
        if path.startswith("segment-data/quarantine/"):
            lines = pq.read_table(lake / path, partitioning=None).to_pylist()
            assert {row.pop("run_id") for row in lines} == {Path(path).name[:19]}
            for row in lines:
                row["file"] = re.sub(r".*/\d{13}/\d{19}-redrive", "redrive", row["file"])
            rows.update(tuple(row.values()) for row in lines)
    return rows


_VARIES = {
    "run_id",
    "start_time",
    "finish_time",
    "duration_mins",
    "bytes_written",
    "workspace_id",
    "s3_bucket",
}


def _report(path: Path) -> Any:
    """The lines of a report, which the copy for the table of reports has too."""
    *_, reports, day, source, run, _ = path.parts
    copy = path.parents[4] / "sync_reports" / day / source / f"{run.removeprefix('run_id=')}.json"
    assert reports == "reports"
    lines = _report_lines(path)
    assert _report_lines(copy) == lines
    return lines


def _report_lines(path: Path) -> list[Any]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in _VARIES} for line in lines]


def _failure(path: Path) -> str:
    run = json.loads(path.read_text().splitlines()[0])
    return f"{run['status']} {run['error_code']}"


def _ids(lake: Path, commits: list[Any]) -> Counter[Any]:
    """The ids of the live index files, less those that later commits removed."""
    live: dict[str, tuple[Any, list[Any]]] = {}
    for commit in commits:
        if is_whole(commit):
            live.clear()
        for _, removed in live.values():
            removed.extend(commit.get("removed_ids", ()))
        for merge in commit.get("merges", ()):
            for path in merge["replaces"]:  # it may be deleted
                del live[path]
            live[merge["file"]["path"]] = merge["file"], []
        live |= {file["path"]: (file, []) for file in commit.get("ids", ())}
    ids: Counter[Any] = Counter()
    for file, removed in live.values():
        ids += _read_ids(lake, file) - sum((_read_ids(lake, one) for one in removed), Counter())
    return ids


def is_whole(commit: Any) -> bool:
    """Whether a commit replaces or drops all that the source had."""
    return "replaces" in commit and not {"since", "until", "tables"} & commit["replaces"].keys()


def _read_ids(lake: Path, file: Any) -> Counter[Any]:
    rows = pq.read_table(lake / file["path"], partitioning=None).to_pylist()
    assert len(rows) == file["rows"]
    return Counter(tuple(row.values()) for row in rows)


WHOLE = tuple(LakeContents.__dataclass_fields__)


def assert_same(actual: LakeContents, expected: LakeContents, parts: Sequence[str] = WHOLE) -> None:
    """Assert that two lakes have the same contents, in the named parts."""
    for part in parts:
        ours, theirs = getattr(actual, part), getattr(expected, part)
        if ours != theirs:
            raise AssertionError(f"{part} differ: {_difference(ours, theirs)[:2000]}")


def _difference(ours: Any, theirs: Any) -> str:
    if isinstance(ours, Counter):
        more, fewer = list(ours - theirs), list(theirs - ours)
        return f"{len(more)} are extra, as {more[:1]}; {len(fewer)} are missing, as {fewer[:1]}"
    if isinstance(ours, dict):
        names = [k for k in ours.keys() | theirs.keys() if ours.get(k) != theirs.get(k)]
        empty = Counter[Any]()
        name = min(names)
        both = ours.get(name, empty), theirs.get(name, empty)
        return f"{sorted(names)}; {name}: {_difference(*both)}"
    return f"{ours}\nand not\n{theirs}"


def assert_complete(lake: Place) -> LakeContents:
    """Assert that a lake verifies, has no strays and all reports; return its contents."""
    contents = read_contents(lake)
    assert contents.problems == (), contents.problems
    assert contents.strays == [], contents.strays
    assert "none" not in contents.reports, contents.reports
    return contents
