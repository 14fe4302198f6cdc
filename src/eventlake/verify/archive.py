"""The archive read again, event by event."""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from urllib.parse import unquote

from eventlake.verify.check import Check
from eventlake.verify.events import NoEventError, catalog_name, read_event, table_of
from eventlake.verify.files import FAILURES, LAKE
from eventlake.verify.ledger import Commit
from eventlake.verify.lines import read_lines


def read_archive(check: Check, say: Callable[[str], None]) -> None:
    """Every event of the archive that may have landed, and a count of all the others."""
    check.insert("event", _archive(check, say))


Row = tuple[int, str, str, int, int, int, int]
"""The last is a doubt: 0 cannot be suppressed, 1 may be but has a row, 2 may be and has none."""


def _archive(check: Check, say: Callable[[str], None]) -> Iterator[Row]:
    for commit in check.commits:
        check.ours[commit.seq] = Counter()
        if commit.adopted:  # others have loaded its files, by rules that nobody can look up
            check.gaps.append(commit.seq)
            continue
        for number, uri in enumerate(commit.uris):
            shown = unquote(uri.removeprefix(LAKE)) if uri.startswith(LAKE) else uri
            say(f"reading {shown}")
            try:
                lines = read_lines(partial(check.place.open_log, uri))
                yield from _events(lines, number, commit, check.ours[commit.seq])
                check.files_read += 1
            except FAILURES as problem:
                check.gaps.append(commit.seq)
                reason = check.place.why_no_log(problem, uri)
                check.problems.append(f"{shown} cannot be re-read: {reason}")


def _events(
    lines: Iterator[bytes | None], number: int, commit: Commit, ours: Counter[str]
) -> Iterator[Row]:
    naming, prefix = commit.settings["naming"], commit.settings["table_prefix"]
    skip = frozenset(commit.settings["skip_events"])
    # The lake does not say who is suppressed: anyone may be, in a commit that suppressed someone.
    doubt = 2 if commit.counts["suppressed"] else 0
    for at, line in enumerate(lines, 1):
        try:
            event, moment = read_event(line)
        except NoEventError as refused:
            if line is None or line.strip(b" \t\r"):
                ours.update(("received", "quarantined", str(refused)))
            continue
        ours["received"] += 1
        name = event["event"] if event["type"] == "track" else ""
        table = table_of(event["type"], name, naming)
        if skip and not skip.isdisjoint((table, name, catalog_name(table, prefix))):
            ours["skipped"] += 1
            continue
        unsure = 0 if event.get("userId") is None else doubt
        yield commit.seq, table, event["messageId"], moment, number, at, unsure
