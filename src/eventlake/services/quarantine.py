"""The quarantine of a source, a page at a time."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pyarrow.parquet as pq

from eventlake.errors import EventLakeError, InvalidSettings
from eventlake.lake import Lake
from eventlake.ledger import Ledger
from eventlake.model.layout import run_day
from eventlake.model.quarantine import (
    QuarantinedLine,
    QuarantinePage,
    QuarantineQuery,
    QuarantineReason,
    QuarantineSummary,
)
from eventlake.pipeline.quarantine import find_quarantine_files, read_quarantine
from eventlake.stores.damage import reading_parquet

MAX_RAW_BYTES = 10_000
"""Bytes of a line that are shown."""
T = TypeVar("T")
FindFiles = Callable[[Ledger], list[str]]


def list_quarantined(
    parts: Lake, folder: str, query: QuarantineQuery, find: FindFiles = find_quarantine_files
) -> QuarantinePage:
    """A page of the lines of a source's quarantine, those of the newest runs first.

    Only the files that have lines of the page are read. `find` lists the live files.
    """
    return _read_again(parts.ledger(folder), find, lambda paths: _read_page(parts, paths, query))


def summarize_quarantine(
    parts: Lake, folder: str, find: FindFiles = find_quarantine_files
) -> QuarantineSummary:
    """How many lines are in a source's quarantine, by the day of their run and reason."""
    return _read_again(parts.ledger(folder), find, lambda paths: _summarize(parts, paths))


def _read_again(ledger: Ledger, find: FindFiles, read: Callable[[list[str]], T]) -> T:
    """Read the live files, again if a run has published or replaced some meanwhile."""
    paths = find(ledger)
    while True:
        try:
            return read(sorted(paths, key=_file_name, reverse=True))
        except EventLakeError:
            before, paths = paths, find(ledger)
            if paths == before:
                raise


def _file_name(path: str) -> str:
    """The name of a file, which begins with the id of its run."""
    return path.rpartition("/")[2]


def _read_page(parts: Lake, paths: list[str], query: QuarantineQuery) -> QuarantinePage:
    name, last = _parse_cursor(query.after) if query.after else ("", 0)
    found: list[tuple[str, QuarantinedLine]] = []
    for path in paths:
        if name and _file_name(path) > name:
            continue
        first = last + 1 if _file_name(path) == name else 0
        for number, line in _list_rows(parts, path, first, query.reason):
            found.append((f"{_file_name(path)}:{number}", line))
            if len(found) > query.limit:
                shown = found[: query.limit]
                return QuarantinePage(items=tuple(one for _, one in shown), next=shown[-1][0])
    return QuarantinePage(items=tuple(one for _, one in found))


def _parse_cursor(after: str) -> tuple[str, int]:
    """The file and row of the last line of the page before; raises InvalidSettings."""
    name, _, row = after.rpartition(":")
    if not name or not row.isdecimal():
        raise InvalidSettings(f"after is {after!r}: give `next` of the page before")
    return name, int(row)


def _list_rows(
    parts: Lake, path: str, first: int, reason: str
) -> Iterator[tuple[int, QuarantinedLine]]:
    """The lines of a file from a row on, with their row numbers."""
    number = 0
    for batch in read_quarantine(parts.store, path):
        if number + len(batch) > first:
            for at, row in enumerate(batch.to_pylist(), number):
                if at >= first and reason in ("", row["reason"]):
                    yield at, _to_line(row)
        number += len(batch)


def _to_line(row: dict[str, Any]) -> QuarantinedLine:
    raw: bytes = row.pop("raw")
    text = raw[:MAX_RAW_BYTES].decode(errors="replace")
    return QuarantinedLine(**row, raw=text, is_cut=len(raw) > MAX_RAW_BYTES)


def _summarize(parts: Lake, paths: list[str]) -> QuarantineSummary:
    counts: Counter[tuple[str, str]] = Counter()
    for path in paths:
        with reading_parquet(parts.store, path), parts.store.open(path) as file:
            columns = pq.read_table(file, columns=["run_id", "reason"])
        for one in (
            columns.group_by(["run_id", "reason"]).aggregate([([], "count_all")]).to_pylist()
        ):
            counts[run_day(one["run_id"]), one["reason"]] += one["count_all"]
    ordered = sorted(counts.items(), reverse=True)
    return QuarantineSummary(
        items=tuple(
            QuarantineReason(day=day, reason=reason, lines=lines)
            for (day, reason), lines in ordered
        )
    )
