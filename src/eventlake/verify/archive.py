"""Reads the archive again, event by event."""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from urllib.parse import unquote

from eventlake.verify.check import Check
from eventlake.verify.events import InvalidLineError, catalog_name, read_event, table_name
from eventlake.verify.files import FAILURES, LAKE
from eventlake.verify.ledger import Commit
from eventlake.verify.lines import read_lines


def read_archive(check: Check, say: Callable[[str], None]) -> None:
    """Fill the table `event` with the events that may have landed, and count all the others.

    Fills `check.recounts`; a file that cannot be read is a problem.
    """
    check.insert("event", _read_events(check, say))


Row = tuple[int, str, str, int, int, int, int]
"""The last is `doubt`: 0 cannot be suppressed, 1 may be but has a row, 2 may be and has none."""


def _read_events(check: Check, say: Callable[[str], None]) -> Iterator[Row]:
    for commit in check.commits:
        check.recounts[commit.seq] = Counter()
        if commit.adopted:  # loaded by other software, whose rules are not known
            check.unverifiable.append(commit.seq)
            continue
        for number, uri in enumerate(commit.uris):
            shown = unquote(uri.removeprefix(LAKE)) if uri.startswith(LAKE) else uri
            say(f"reading {shown}")
            try:
                lines = read_lines(partial(check.files.open_log, uri))
                yield from _parse_events(check, lines, number, commit)
                check.files_read += 1
            except FAILURES as problem:
                check.unverifiable.append(commit.seq)
                reason = check.files.explain_log(problem, uri)
                check.problems.append(f"{shown} cannot be read again: {reason}")


def _list_skipped(check: Check, commit: Commit) -> frozenset[str]:
    """The names in `skip_events`, and those of tables that are there by their catalog names."""
    skip = frozenset(commit.settings["skip_events"])
    return skip.union(t for t, one in check.tables.items() if one.get("catalog_name") in skip)


def _parse_events(
    check: Check, lines: Iterator[bytes | None], number: int, commit: Commit
) -> Iterator[Row]:
    counts, skip = check.recounts[commit.seq], _list_skipped(check, commit)
    naming, prefix = commit.settings["naming"], commit.settings["table_prefix"]
    # The suppression list may have changed since: anybody may have been on it.
    doubt = 2 if commit.counts["suppressed"] else 0
    for at, line in enumerate(lines, 1):
        try:
            event, moment = read_event(line)
        except InvalidLineError as problem:
            if line is None or line.strip(b" \t\r"):
                counts.update(("received", "quarantined", str(problem)))
            continue
        counts["received"] += 1
        name = event["event"] if event["type"] == "track" else ""
        table = table_name(event["type"], name, naming)
        if name:
            table = check.table_of_folder.get(table, table)
        if skip and not skip.isdisjoint((table, name, catalog_name(table, prefix))):
            counts["skipped"] += 1
            continue
        unsure = 0 if event.get("userId") is None else doubt
        yield commit.seq, table, event["messageId"], moment, number, at, unsure
