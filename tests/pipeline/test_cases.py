"""The cases of `tests/cases`: events in, tables and reports out.

What landed is read here with pyarrow and json alone, so that nothing of the pipeline vouches for
itself.
"""

import json
import re
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests import agreement, lakes
from tests.cases import COUNTS, Case, Columns, Load, Row, Table, all_cases, in_order
from tests.kernel_lake import KernelLake
from tests.oracle import Oracle, Settings, catalog_name

from eventlake.model.settings import source_settings
from eventlake.services.suppress import list_suppressed_users, unsuppress_users

OUTCOMES = ("landed", "duplicates", "suppressed", "quarantined", "skipped")
COUNT_FIELDS = {
    "received": "received_count",
    "landed": "row_count",
    "duplicates": "duplicate_count",
    "suppressed": "suppressed_count",
    "quarantined": "quarantined_count",
    "skipped": "skipped_count",
    "rescued": "rescued_count",
}
REPORT_FIELDS = {
    *("type", "workspace_id", "source_id", "run_id", "start_time", "finish_time", "duration_mins"),
    *("status", "error", "error_code", "table_name", "database", "partitions", "new_columns"),
    *("is_new", "replay", "replay_from", "replay_to", "emr_cluster_id", "s3_bucket"),
    "newest_received_at",
    *("bytes_written", "files_written", *COUNT_FIELDS.values()),
}
PARQUET_TYPES = {
    "boolean": pa.bool_(),
    "bigint": pa.int64(),
    "decimal(38,6)": pa.decimal128(38, 6),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", "UTC"),
}

ON_SPARK = {
    "columns-nested-objects",
    "dedup-across-tables",
    "dedup-later-load",
    "evolution-column-order",
    "files-compressed",
    "files-damaged-gzip",
    "partition-year-month-day-hour",
    "quarantine-not-json",
    "rescue-column-budget",
    "suppression",
    "types-exact-numbers",
    "types-join",
}
"""Cases that are loaded by Spark too, at least one of each stage: all of them take minutes."""

each_case = pytest.mark.parametrize("case", all_cases(), ids=str)


@each_case
def test_a_case_lands_as_promised(case: Case, tmp_path: Path) -> None:
    check_case(case, tmp_path, lakes.InlineRunner)


@pytest.mark.spark
@pytest.mark.parametrize("name", sorted(ON_SPARK))
def test_a_case_lands_as_promised_on_spark(name: str, tmp_path: Path) -> None:
    [case] = (case for case in all_cases() if str(case) == name)
    check_case(case, tmp_path, lakes.SparkRunner)


def check_case(case: Case, tmp_path: Path, runner: type) -> None:
    """Load the logs of a case in their order, and compare what is in the lake afterwards."""
    folder, database = (case.expected.get(key, "web") for key in ("folder", "database"))
    lake = Lake(tmp_path / "lake", folder, database)
    archive = tmp_path / "archive"
    archive.mkdir()
    for load in case.loads:
        for log in load.logs:
            (archive / log.name).write_bytes(log.stored)
        before, reports = lake.tables(), len(lake.reports())
        if lake.root.exists():
            forgiven = set(list_suppressed_users(lake.root).users) - load.suppressed
            unsuppress_users(forgiven, lake=lake.root)
        result = lakes.load(
            [archive],
            lake.root,
            runner=runner,
            settings=source_settings(**case.settings),
            suppressed=load.suppressed,
        )
        assert result.status == load.status
        assert result.counts.model_dump() == load.counts
        if result.status == "nothing":
            assert len(lake.reports()) == reports
        else:
            check_report(lake.report(result.run_id), load, lake, before)
            check_quarantine(lake.quarantine(result.run_id), load, result.run_id)
    check_tables(lake.tables(), case.tables)
    prefix = case.settings.get("table_prefix", "")
    assert {catalog_name(name, prefix) for name in lake.table_folders()} == case.tables.keys()
    assert not [path for path in lake.root.glob("segment-stage/**/*") if path.is_file()]


@each_case
def test_the_oracle_agrees(case: Case) -> None:
    """A second implementation of the contract gives what a case expects."""
    known = Settings.__dataclass_fields__.keys() & case.settings.keys()
    oracle = Oracle(Settings(**{key: case.settings[key] for key in known}))
    for load in case.loads:
        oracle.settings = replace(oracle.settings, suppressed=load.suppressed)
        logs = [log for log in load.logs if not log.name.endswith((".txt", ".png"))]
        result = oracle.load({log.name: log.lines for log in logs})
        # The oracle gets the readable lines, without the damage.
        rows = [row for row in load.quarantine if row[2] != "damaged_file"]
        damaged = len(load.quarantine) - len(rows)
        result.received += damaged
        result.quarantined += damaged
        assert {what: getattr(result, what) for what in COUNTS} == load.counts
        assert sorted((file, line, reason) for reason, file, line, _ in result.quarantine) == rows
    found = {
        catalog_name(name, oracle.settings.table_prefix): Table(
            state.columns, by_partition(state.rows, case.settings)
        )
        for name, state in oracle.tables.items()
    }
    check_tables(found, case.tables)


@pytest.mark.parametrize("naming", ["warehouse", "native"])
@each_case
def test_a_case_in_another_naming(case: Case, naming: str) -> None:
    """The loader and the second implementation agree on each case in the namings it is not for."""
    settings = {**case.settings, "naming": naming}
    known = Settings.__dataclass_fields__.keys() & settings.keys()
    oracle = Oracle(Settings(**{key: settings[key] for key in known}))
    lake = KernelLake(source_settings(**settings))
    for load in case.loads:
        logs = [log for log in load.logs if not log.name.endswith((".txt", ".png"))]
        files = {log.name: log.lines for log in logs}
        oracle.settings = replace(oracle.settings, suppressed=load.suppressed)
        lake.suppressed = frozenset(load.suppressed)
        oracle.load(files)
        lake.load(files, block_lines=50)
        agreement.compare(oracle, lake)


def by_partition(rows: list[Row], settings: dict[str, Any]) -> dict[str, list[Row]]:
    keys = settings.get("date_partition", "day/hour").replace("hour", "hr").split("/")
    found = defaultdict(list)
    for row in rows:
        cells = {key: cell for key, cell in row.items() if key not in keys}
        found["/".join(f"{key}={row[key]}" for key in keys)].append(cells)
    return {key: in_order(cells) for key, cells in found.items()}


@each_case
def test_a_case_can_be_read(case: Case) -> None:
    assert case.about.keys() <= {"title", "promise", "settings", "suppressed", "make"}
    assert case.about["title"]
    assert case.about["promise"].strip()
    assert all(load.logs or load.status == "nothing" for load in case.loads)


@dataclass(frozen=True)
class Lake:
    """A source's tables, read from the files."""

    root: Path
    folder: str
    database: str

    def tables(self) -> dict[str, Table]:
        catalog = self.root / "segment-data/catalog" / self.database
        found = [json.loads(path.read_bytes()) for path in sorted(catalog.glob("*.json"))]
        return {one["name"]: self._table(one) for one in found}

    def _entry(self, table: str) -> dict[str, Any]:
        path = self.root / "segment-data/catalog" / self.database / f"{table}.json"
        return json.loads(path.read_bytes()) if path.exists() else {}

    def _table(self, entry: dict[str, Any]) -> Table:
        columns = {column["name"]: column["type"] for column in entry["columns"]}
        partitions = defaultdict(list)
        for file in self.files(entry["name"]):
            partitions[partition_of(file)] += rows_of(file, columns)
        assert list(map(partition_path, entry["partitions"])) == sorted(partitions)
        return Table(columns, {key: in_order(rows) for key, rows in partitions.items()})

    @property
    def _data(self) -> Path:
        return self.root / "segment-data/data" / self.folder

    def files(self, table: str, run_id: str = "") -> list[Path]:
        """The files of a table, named as in the catalog."""
        location = self._entry(table).get("location")
        return sorted((self.root / location).glob(f"**/{run_id}*.parquet")) if location else []

    def table_folders(self) -> set[str]:
        return {path.name.removeprefix("segment_type=") for path in self._data.glob("*")}

    def reports(self) -> list[Path]:
        reports = self.root / "segment-data/reports"
        return sorted(reports.glob(f"day=*/source={self.folder}/run_id=*/report.json"))

    def report(self, run_id: str) -> list[Row]:
        (path,) = (path for path in self.reports() if path.parent.name == f"run_id={run_id}")
        return [json.loads(line) for line in path.read_text().splitlines()]

    def quarantine(self, run_id: str) -> list[Row]:
        paths = (self.root / "segment-data/quarantine" / self.folder).glob(f"*/{run_id}.parquet")
        return [row for path in paths for row in pq.ParquetFile(path).read().to_pylist()]


def partition_of(file: Path) -> str:
    """`…/segment_type=orders/day=2026-11-01/hr=07/x.parquet` → `day=2026-11-01/hr=07`"""
    return str(file.parent).partition("segment_type=")[2].partition("/")[2]


def partition_path(values: dict[str, str]) -> str:
    return "/".join(f"{column}={value}" for column, value in values.items())


def rows_of(file: Path, columns: Columns) -> list[Row]:
    """The non-null cells of a file, whose format is checked."""
    parquet = pq.ParquetFile(file)
    schema = parquet.schema_arrow
    assert {field.name: field.type for field in schema} == {
        name: PARQUET_TYPES[to] for name, to in columns.items() if name in schema.names
    }
    chunks = [parquet.metadata.row_group(0).column(at) for at in range(len(schema))]
    assert {chunk.compression for chunk in chunks} == {"ZSTD"}
    rows = parquet.read().to_pylist()
    received = [row["received_at"] for row in rows]
    assert received == sorted(received)
    return [{key: cell for key, cell in row.items() if cell is not None} for row in rows]


def check_tables(found: dict[str, Table], promised: dict[str, Table]) -> None:
    """Row by row, so that a difference is easy to see."""
    assert found.keys() == promised.keys()
    for name, table in promised.items():
        assert list(found[name].columns.items()) == list(table.columns.items())
        assert found[name].partitions.keys() == table.partitions.keys()
        for partition, rows in table.partitions.items():
            for ours, theirs in zip_longest(found[name].partitions[partition], rows):
                assert ours == theirs


def check_report(report: list[Row], load: Load, lake: Lake, before: dict[str, Table]) -> None:
    """Check what the case expects of the report, and what every report must have."""
    run, *tables = report
    assert (run["type"], run["table_name"]) == ("source", "")
    assert {what: run[field] for what, field in COUNT_FIELDS.items()} == load.counts
    for what, field in COUNT_FIELDS.items():
        of_no_table = run["quarantined_count"] if what in ("received", "quarantined") else 0
        assert run[field] == of_no_table + sum(line[field] for line in tables), what
    for line in report:
        check_line(line)
    after = lake.tables()
    for line in tables:
        check_written(line, lake)
        check_growth(line, before.get(line["table_name"]), after.get(line["table_name"]))
    by_name = {line["table_name"]: line for line in report}
    assert len(by_name) == len(report)
    for chosen in load.report:
        line = by_name[chosen["table_name"]]
        assert {field: line[field] for field in chosen} == chosen


def check_line(line: Row) -> None:
    assert line.keys() <= REPORT_FIELDS
    assert None not in line.values()
    assert re.fullmatch(r"\d{19}", line["run_id"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}", line["start_time"])
    assert line["start_time"] <= line["finish_time"]
    assert line["received_count"] == sum(line[COUNT_FIELDS[what]] for what in OUTCOMES)


def check_written(line: Row, lake: Lake) -> None:
    """A table's report line agrees with the run's files; each partition is one file."""
    files = lake.files(line["table_name"], line["run_id"])
    assert line["type"] == "event"
    assert line["row_count"] == sum(pq.read_metadata(file).num_rows for file in files)
    assert line["bytes_written"] == sum(file.stat().st_size for file in files)
    assert line["files_written"] == len(files)
    assert list(map(partition_path, line["partitions"])) == list(map(partition_of, files))


def check_growth(line: Row, before: Table | None, after: Table | None) -> None:
    """New columns are at the table's end, in order; the others are unchanged."""
    assert line["is_new"] == (before is None and after is not None)
    new = [(column["name"], column["type"]) for column in line["new_columns"]]
    assert new == sorted(new)
    columns = list(after.columns.items()) if after else []
    assert columns[len(columns) - len(new) :] == new
    if before:
        assert columns == [*before.columns.items(), *new]


def check_quarantine(rows: list[Row], load: Load, run_id: str) -> None:
    """Each invalid line is there, as it was sent."""
    sent = {log.name: log.lines for log in load.logs}
    found = []
    for row in rows:
        assert row.keys() == {"reason", "detail", "raw", "file", "line", "run_id"}
        assert row["run_id"] == run_id
        name, line = Path(row["file"]).name, row["line"]
        if row["reason"] == "damaged_file":
            line = 0
        else:
            assert row["raw"] == sent[name][line - 1]
        found.append((name, line, row["reason"]))
    assert sorted(found) == load.quarantine
