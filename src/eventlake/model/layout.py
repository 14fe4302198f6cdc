"""Paths below a lake's root, and partitions by `receivedAt`."""

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum

LOGS = "segment-logs"
STAGE = "segment-stage"
DATA = "segment-data/data"
REPORTS = "segment-data/reports"
SYNC_REPORTS = "segment-data/sync_reports"
"""Copies of the reports for the table of that name: engines that do not look into subfolders find
the files of a partition directly in its folder."""
QUARANTINE = "segment-data/quarantine"
LEDGER = "segment-data/ledger"
CATALOG = "segment-data/catalog"
SOURCES = "segment-data/sources.json"
"""The sources of the lake, and the names that each owns."""

HOUR = 3_600_000_000
"""Microseconds in an hour."""


class DatePartition(StrEnum):
    """The four ways to partition by the hour or day of receipt."""

    DAY_HOUR = "day/hour"
    YEAR_MONTH_DAY_HOUR = "year/month/day/hour"
    YEAR_MONTH_DAY = "year/month/day"
    DAY = "day"

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
    """`…/segment_type=t/day=2026-11-01/hr=07/x.parquet` → `{"day": "2026-11-01", "hr": "07"}`"""
    below_table = path.partition("/segment_type=")[2].split("/")[1:-1]
    return dict(folder.split("=", 1) for folder in below_table if "=" in folder)


def table_path(folder: str, table: str) -> str:
    return f"{DATA}/{folder}/segment_type={table}"


def data_path(table: str, partition: dict[str, str], run_id: str, number: int) -> str:
    """The final path of a Parquet file; `table` is the table's path."""
    return f"{table}/{partition_path(partition)}/{run_id}-{number}.parquet"


def stage_path(run_id: str) -> str:
    return f"{STAGE}/{run_id}"


def report_path(folder: str, run_id: str) -> str:
    return f"{REPORTS}/day={run_day(run_id)}/source={folder}/run_id={run_id}/report.json"


def quarantine_path(folder: str, run_id: str) -> str:
    return f"{QUARANTINE}/{folder}/day={run_day(run_id)}/{run_id}.parquet"


def ids_path(folder: str, run_id: str, number: int) -> str:
    return f"{LEDGER}/{folder}/ids/{run_id}-{number}.parquet"


def run_day(run_id: str) -> str:
    """The UTC day a run was planned; a run's id is Unix nanoseconds."""
    return datetime.fromtimestamp(int(run_id) // 10**9, UTC).strftime("%Y-%m-%d")
