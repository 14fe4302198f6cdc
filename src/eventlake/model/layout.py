"""Paths below a lake's root, and partitions by `receivedAt`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

LOGS = "segment-logs"
"""The archive of raw logs. It is not in `Layout`: Segment and collectors write it there in every
lake, and ledgers name its files as inputs by this path."""

SUPPRESSION = "segment-data/suppression.json"
"""The lake's suppression list. It is not in `Layout`: collectors read it there in every lake."""

HOUR = 3_600_000_000
"""Microseconds in an hour."""


class DatePartition(StrEnum):
    """The four ways to partition by the hour or day of receipt."""

    DAY_HOUR = "day/hour"
    YEAR_MONTH_DAY_HOUR = "year/month/day/hour"
    YEAR_MONTH_DAY = "year/month/day"
    DAY = "day"

    @classmethod
    def _missing_(cls, value: object) -> "DatePartition | None":
        """Accept Segment's labels: `Day/Hour [YYYY-MM-DD/HH] (Default)`."""
        name = str(value).partition("[")[0].strip().lower()
        return next((one for one in cls if one.value == name), None)

    @property
    def columns(self) -> tuple[str, ...]:
        """The partition columns, outermost first."""
        return tuple(_FORMATS[self])

    @property
    def span(self) -> int:
        """Microseconds that one partition covers."""
        return HOUR if "hr" in _FORMATS[self] else 24 * HOUR

    def values(self, moment: int) -> dict[str, str]:
        """The partition that holds `moment` (microseconds since 1970)."""
        at = datetime.fromtimestamp(moment // 1_000_000, UTC)
        year = f"{at.year:04d}"  # strftime's %Y does not pad on every platform
        return {
            column: at.strftime(form.replace("%Y", year)) for column, form in _FORMATS[self].items()
        }

    def start(self, values: Mapping[str, str]) -> int:
        """The first moment of a partition, in microseconds since 1970."""
        day = "-".join(values[name] for name in ("year", "month", "day") if name in values)
        at = datetime.fromisoformat(f"{day}T{values.get('hr', '00')}:00:00+00:00")
        return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


_FORMATS: dict[DatePartition, dict[str, str]] = {
    DatePartition.DAY_HOUR: {"day": "%Y-%m-%d", "hr": "%H"},
    DatePartition.YEAR_MONTH_DAY_HOUR: {"year": "%Y", "month": "%m", "day": "%d", "hr": "%H"},
    DatePartition.YEAR_MONTH_DAY: {"year": "%Y", "month": "%m", "day": "%d"},
    DatePartition.DAY: {"day": "%Y-%m-%d"},
}


def partition_path(values: Mapping[str, str]) -> str:
    """`day=2026-11-01/hr=07`"""
    return "/".join(f"{column}={value}" for column, value in values.items())


def partition_of(path: str) -> dict[str, str]:
    """The values in the folders of a path below its table: `day=2026-11-01/hr=07/x.parquet`."""
    return dict(folder.split("=", 1) for folder in path.split("/")[:-1] if "=" in folder)


def archive_path(folder: str) -> str:
    """The folder of a source's raw logs."""
    return f"{LOGS}/{folder}"


def rewritten_path(path: str, run_id: str) -> str:
    """A path beside `path` for the object that a run puts in its place: `x.gz` → `x-r<run>.gz`.

    The id of a run that has rewritten the object before is replaced.
    """
    folder, slash, name = path.rpartition("/")
    stem, dot, suffix = name.partition(".")
    stem = _REWRITTEN.sub("", stem)
    return f"{folder}{slash}{stem}-r{run_id}{dot}{suffix}"


def is_rewritten(path: str) -> bool:
    """Whether a path is one that `rewritten_path` has made."""
    return bool(_REWRITTEN.search(path.rpartition("/")[2].partition(".")[0]))


_REWRITTEN = re.compile(r"-r\d{19}$", re.ASCII)


def run_day(run_id: str) -> str:
    """The UTC day a run was planned; a run's id is Unix nanoseconds."""
    return datetime.fromtimestamp(int(run_id) // 10**9, UTC).strftime("%Y-%m-%d")


@dataclass(frozen=True)
class Layout:
    """The paths of a lake below its root, without the archive of raw logs."""

    data: str = "segment-data/data"
    reports: str = "segment-data/reports"
    sync_reports: str = "segment-data/sync_reports"
    """Copies of the reports for the table of that name: engines that do not look into subfolders
    find the files of a partition directly in its folder."""
    quarantine: str = "segment-data/quarantine"
    ledger: str = "segment-data/ledger"
    catalog: str = "segment-data/catalog"
    databases: str = "segment-data/databases"
    """The folders of a Hive metastore's databases. Dropping a database deletes its folder, so no
    table may be in there."""
    sources: str = "segment-data/sources.json"
    """The sources of the lake, and the names that each owns."""
    stage: str = "segment-stage"
    schemas: str = ""
    """The folder, below that of a source's tables, of JSON files with their schemas; empty if the
    lake has none."""

    @property
    def roots(self) -> tuple[str, ...]:
        """The topmost folders of what a lake keeps, which is all but its stages."""
        paths = (self.data, self.reports, self.quarantine, self.ledger, self.catalog, self.sources)
        return tuple(dict.fromkeys(path.partition("/")[0] for path in paths))

    @property
    def code(self) -> str:
        """The folder of code that was uploaded for a cluster, with a folder for each version."""
        return f"{self.stage}/code"

    def stage_path(self, run_id: str) -> str:
        return f"{self.stage}/{run_id}"

    def report_path(self, folder: str, run_id: str) -> str:
        return f"{self.reports}/day={run_day(run_id)}/source={folder}/run_id={run_id}/report.json"

    def receipt_path(self, folder: str, run_id: str) -> str:
        """The receipt of a run that has forgotten a user; the page beside it ends in `.html`."""
        return f"{self.report_path(folder, run_id).rpartition('/')[0]}/receipt.json"

    def parse_report_path(self, path: str) -> tuple[str, str] | None:
        """The day and the source's folder of a report; None for the path of something else."""
        match = self._match_report(path)
        return (match[1], match[2]) if match else None

    def report_copy_path(self, path: str) -> str:
        """The path of the copy of a report for the table of reports."""
        match = self._match_report(path)
        assert match, path
        return f"{self.sync_reports}/day={match[1]}/source={match[2]}/{match[3]}.json"

    def _match_report(self, path: str) -> re.Match[str] | None:
        pattern = r"/day=([^/]+)/source=([^/]+)/run_id=([^/]+)/report\.json"
        return re.fullmatch(re.escape(self.reports) + pattern, path)

    def schema_path(self, source_path: str, table: str) -> str:
        """The path of a table's schema, in the folder of its source."""
        return f"{source_path}/{self.schemas}/{table}.json"

    def quarantine_path(self, folder: str, run_id: str) -> str:
        return f"{self.quarantine}/{folder}/day={run_day(run_id)}/{run_id}.parquet"

    def ledger_path(self, folder: str) -> str:
        return f"{self.ledger}/{folder}"

    def users_path(self, folder: str, run_id: str) -> str:
        return f"{self.ledger_path(folder)}/users/{run_id}.arrow"

    def ids_path(self, folder: str, run_id: str, number: int) -> str:
        return f"{self.ledger_path(folder)}/ids/{run_id}-{number}.parquet"


DEFAULT_LAYOUT = Layout()
"""The layout of a new lake, except in ADLS."""

ADLS_LAYOUT = Layout(data="staging", schemas="schemas")
"""The layout of lakes in ADLS, which is that of Segment's."""


def data_path(table: str, partition: Mapping[str, str], run_id: str, number: int) -> str:
    """The final path of a Parquet file; `table` is the table's path."""
    return f"{table}/{partition_path(partition)}/{run_id}-{number}.parquet"
