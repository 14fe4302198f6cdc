"""Reads the archive again, event by event."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import unquote

from eventlake.verify.check import Check
from eventlake.verify.events import InvalidLineError, catalog_name, read_event, table_name
from eventlake.verify.files import FAILURES, LAKE
from eventlake.verify.ledger import Commit, Identity, Replacement
from eventlake.verify.lines import read_lines


def read_archive(check: Check, say: Callable[[str], None]) -> None:
    """Fill the table `event` with the events that may have landed, and count all the others.

    Fills `check.recounts`; a file that cannot be read is a problem.
    """
    check.insert("event", _read_events(check, say))


Row = tuple[int, str, str, int, int, int, int]
"""The last is `doubt`: 0 cannot be suppressed, 1 may be but has a row, 2 may be and has none.

It is -1 for rows of the tables whose archive cannot be read.
"""


def _read_events(check: Check, say: Callable[[str], None]) -> Iterator[Row]:
    spans: dict[Identity, Span] = {}
    for commit in check.active:
        check.recounts[commit.seq] = Counter()
        if commit.adopted:  # loaded by other software, whose rules are not known
            check.unverifiable.append(commit.seq)
            continue
        inputs = _inputs(commit, spans)
        if commit.replaces and commit.replaces.is_whole:  # what it left out is no longer loaded
            spans = {identity: spans[identity] for identity in spans.keys() - commit.replaces.lost}
        for number, identity in enumerate(inputs):
            uri, _ = identity
            shown = unquote(uri.removeprefix(LAKE)) if uri.startswith(LAKE) else uri
            say(f"reading {shown}")
            span = spans.setdefault(identity, Span(commit.seq))
            try:
                lines = read_lines(partial(check.files.open_log, uri))
                yield from _parse_events(check, lines, number, commit, span)
                check.files_read += commit.replaces is None
            except FAILURES as problem:
                check.unverifiable.append(commit.seq)
                reason = check.files.explain_log(problem, uri)
                if not _is_given_up(check, commit, identity):
                    check.problems.append(f"{shown} cannot be read again: {reason}")


def _inputs(commit: Commit, spans: "dict[Identity, Span]") -> list[Identity]:
    """The archive files of a load; for a replay, all loaded so far that have events of its time."""
    window = commit.replaces
    if window is None:
        return commit.inputs
    if commit.body.get("kind") == "drop":
        return []
    loaded = sorted(spans.keys() - window.lost)
    return [one for one in loaded if spans[one].overlaps(window)]


def _is_given_up(check: Check, commit: Commit, identity: Identity) -> bool:
    """Whether a later replay of all events did without a file that is gone."""
    later = (one.replaces for one in check.active if one.seq > commit.seq and one.replaces)
    return any(one.is_whole and identity in one.lost for one in later)


@dataclass
class Span:
    """First and last time of receipt of the events in a file, and the commit that loaded it."""

    seq: int
    first: int = 1 << 62
    last: int = -(1 << 62)

    def add(self, moment: int) -> None:
        self.first, self.last = min(self.first, moment), max(self.last, moment)

    def overlaps(self, window: Replacement) -> bool:
        is_loaded = self.seq <= window.base
        return is_loaded and self.first < window.until and self.last >= window.since


def _list_skipped(check: Check, commit: Commit) -> frozenset[str]:
    """The names in `skip_events`, of tables that are there by their catalog names, and of tables
    that were skipped because they were new.
    """
    skip = frozenset(commit.settings["skip_events"])
    skip |= {t for t, one in check.tables.items() if one.get("catalog_name") in skip}
    if commit.settings["new_tables"] == "skip":
        # Which tables were new when the run was planned is only in the counts of its commit.
        skip |= {one["table"]["name"] for one in commit.body.get("tables", ()) if _is_skipped(one)}
    return skip


def _is_skipped(table: dict[str, Any]) -> bool:
    counts = table["counts"]
    return bool(counts.get("skipped")) and not counts.get("landed") and not counts.get("duplicates")


def _parse_events(
    check: Check, lines: Iterator[bytes | None], number: int, commit: Commit, span: Span
) -> Iterator[Row]:
    window = commit.replaces
    counts, skip = check.recounts[commit.seq], _list_skipped(check, commit)
    naming, prefix = commit.settings["naming"], commit.settings["table_prefix"]
    # The suppression list may have changed since: anybody may have been on it.
    doubt = 2 if commit.counts["suppressed"] else 0
    for at, line in enumerate(lines, 1):
        try:
            event, moment = read_event(line)
        except InvalidLineError as problem:
            # Invalid lines are in the quarantine of the run that loaded them.
            if not window and (line is None or line.strip(b" \t\r")):
                counts.update(("received", "quarantined", str(problem)))
            continue
        span.add(moment)
        name = event["event"] if event["type"] == "track" else ""
        table = table_name(event["type"], name, naming)
        if name:
            table = check.table_of_folder.get(table, table)
        if window and not window.includes(table, moment):
            continue
        counts["received"] += 1
        if skip and not skip.isdisjoint((table, name, catalog_name(table, prefix))):
            counts["skipped"] += 1
            continue
        unsure = 0 if event.get("userId") is None else doubt
        yield commit.seq, table, event["messageId"], moment, number, at, unsure
