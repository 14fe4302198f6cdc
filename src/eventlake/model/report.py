"""Sync reports: a line for the run, then a line for each of its tables."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from eventlake.errors import EventLakeError
from eventlake.model.commit import Commit, CommitKind, Counts, DataFile, TableCommit
from eventlake.model.settings import SourceSettings
from eventlake.model.tables import catalog_name
from eventlake.model.types import Type

DATABASE, TABLE = "__segment_datalake", "sync_reports"
PARTITIONS = ("source_id", "day")
COLUMNS = {
    **dict.fromkeys(("type", "workspace_id", "run_id"), Type.STRING),
    **dict.fromkeys(("start_time", "finish_time"), Type.TIMESTAMP),
    "duration_mins": Type.BIGINT,
    **dict.fromkeys(
        ("status", "error", "error_code", "table_name", "database", "partitions", "new_columns"),
        Type.STRING,
    ),
    "row_count": Type.BIGINT,
    **dict.fromkeys(("is_new", "replay"), Type.BOOLEAN),
    **dict.fromkeys(
        ("replay_from", "replay_to", "emr_cluster_id", "s3_bucket", "warning"),
        Type.STRING,
    ),
    **dict.fromkeys(
        (
            "received_count",
            "duplicate_count",
            "suppressed_count",
            "quarantined_count",
            "skipped_count",
            "rescued_count",
            "bytes_written",
            "files_written",
        ),
        Type.BIGINT,
    ),
    "newest_received_at": Type.TIMESTAMP,
}
"""The columns of the table of reports; lists are JSON text."""

FINISHED, PARTIAL, FAILED = "finished", "partial", "failed"

Line = dict[str, Any]
NOTHING: Mapping[str, str] = MappingProxyType({})


def stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f")


def run_stamp(run_id: str) -> str:
    """The time when a run was planned, which is in its id."""
    seconds, nanos = divmod(int(run_id), 10**9)
    return stamp(datetime.fromtimestamp(seconds, UTC).replace(microsecond=nanos // 1000))


class Problems(dict[str, tuple[str, str]]):
    """Message and error code by table."""

    def add(self, errors: Mapping[str, EventLakeError]) -> None:
        """Add errors by table; the first error of a table stays."""
        for table, error in errors.items():
            self.setdefault(table, (str(error), error.code))

    @property
    def first(self) -> tuple[str, str] | None:
        return next(iter(self.values()), None)


def report_lines(
    commit: Commit, finished: str, problems: Problems, facts: Mapping[str, str] = NOTHING
) -> list[Line]:
    """The report of a run that committed; `facts` are further fields, the same on every line."""
    head = {**_head(commit.run_id, commit.settings, finished), **_replayed(commit), **facts}
    status = PARTIAL if problems else FINISHED
    files = [file for done in commit.tables for file in done.adds]
    run = {
        **head,
        "type": "source",
        "table_name": "",
        "status": status,
        **_errors(problems.first),
        **_counts(commit.counts),
        "bytes_written": sum(file.bytes for file in files),
        "files_written": len(files),
        **_newest(files),
        "is_new": any(done.is_new for done in commit.tables),
    }
    lines = [
        _table_line(head, catalog_name(commit.settings, done.table), done, problems)
        for done in commit.tables
    ]
    if commit.kind is CommitKind.LOAD:  # a replay brings the older partitions along
        pairs = zip(lines, commit.tables, strict=True)
        lines = [{**line, **_retype_warning(done)} for line, done in pairs]
    return [run, *lines]


def _retype_warning(done: TableCommit) -> Line:
    if not done.retyped:
        return {}
    types = ", ".join(f"{column.name} is now {column.type}" for column in done.retyped)
    return {"warning": f"{types}: older partitions need a replay"}


def _replayed(commit: Commit) -> Line:
    """The fields of a replay; it has no times if it is of all events."""
    if commit.kind is not CommitKind.REPLAY or commit.replaces is None:
        return {}
    times = (commit.replaces.since, commit.replaces.until)
    bounds = (
        [datetime.fromtimestamp(time // 1_000_000, UTC) for time in times]
        if (commit.replaces.is_bounded)
        else []
    )
    named = zip(("replay_from", "replay_to"), map(stamp, bounds), strict=False)
    return {"replay": True, **dict(named)}


def _table_line(head: Line, name: str, done: TableCommit, problems: Problems) -> Line:
    problem = problems.get(done.table.name)
    return {
        **head,
        "type": "event",
        "table_name": name,
        "status": FAILED if problem else FINISHED,
        **_errors(problem),
        "partitions": list(done.partitions),
        "new_columns": [{"name": c.name, "type": str(c.type)} for c in done.new_columns],
        "is_new": done.is_new,
        **_counts(done.counts),
        "bytes_written": sum(file.bytes for file in done.adds),
        "files_written": len(done.adds),
        **_newest(done.adds),
    }


def _newest(files: Sequence[DataFile]) -> Line:
    """When the newest of the rows in files was received; nothing if the files do not say."""
    bounds = [one.stats["received_at"][2] for one in files if "received_at" in one.stats]
    moments = [datetime.fromisoformat(bound) for bound in bounds if isinstance(bound, str)]
    return {"newest_received_at": stamp(max(moments))} if moments else {}


def failure_lines(
    run_id: str,
    settings: SourceSettings,
    error: str,
    code: str,
    finished: str,
    facts: Mapping[str, str] = NOTHING,
) -> list[Line]:
    """The report of a run that failed before its commit."""
    head = {**_head(run_id, settings, finished), **facts}
    return [
        {
            **head,
            "type": "source",
            "table_name": "",
            "status": FAILED,
            "error": error,
            "error_code": code,
            **_counts(Counts()),
        }
    ]


def _head(run_id: str, settings: SourceSettings, finished: str) -> Line:
    started = run_stamp(run_id)
    return {
        "type": "",
        "workspace_id": settings.workspace,
        "source_id": settings.source_id,
        "run_id": run_id,
        "start_time": started,
        "finish_time": finished,
        "duration_mins": _minutes(started, finished),
        "database": settings.database,
        "replay": False,
    }


def _minutes(started: str, finished: str) -> int:
    form = "%Y-%m-%d %H:%M:%S.%f"
    duration = datetime.strptime(finished, form) - datetime.strptime(started, form)
    return max(0, int(duration.total_seconds() // 60))


def _counts(counts: Counts) -> Line:
    return {
        "row_count": counts.landed,
        "received_count": counts.received,
        "duplicate_count": counts.duplicates,
        "suppressed_count": counts.suppressed,
        "quarantined_count": counts.quarantined,
        "skipped_count": counts.skipped,
        "rescued_count": counts.rescued,
    }


def _errors(problem: tuple[str, str] | None) -> Mapping[str, str]:
    return {"error": problem[0], "error_code": problem[1]} if problem else {}


def to_lines(lines: list[Line]) -> bytes:
    """Encode as JSON lines."""
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
