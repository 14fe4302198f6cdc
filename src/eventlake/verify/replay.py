"""Computes which events should have landed: removes duplicates and suppressed events."""

from bisect import bisect, insort
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from eventlake.verify.check import Check

_TRUST = """
    INSERT INTO event SELECT min(seq), tbl, id, received, 0, 0, -1 FROM landed_by ANTI JOIN (
        SELECT seq AS added_by, tbl, id, received FROM event UNION ALL
        SELECT o.seq, tbl, id, received FROM event JOIN origin o ON o.origin = event.seq)
    USING (added_by, tbl, id, received) WHERE seq IN (SELECT unnest(?::INT[])) GROUP BY ALL
"""
_SINGLE = """
    UPDATE event SET doubt = 1 FROM landed_by r WHERE doubt = 2 AND r.seq = event.seq
        AND r.id = event.id AND r.tbl = event.tbl AND r.received = event.received;
    CREATE TABLE repeated AS SELECT id FROM event GROUP BY id HAVING count(*) > 1;
    INSERT INTO outcome
        SELECT seq, tbl, id, received, doubt < 2, doubt >= 0 AND EXISTS (
            FROM replaced r WHERE event.seq <= r.base AND event.received >= r.since
            AND event.received < r.until AND (r.tbl IS NULL OR r.tbl = event.tbl))
        FROM event ANTI JOIN repeated USING (id);
"""
_REPEATED = """
    SELECT seq, tbl, id, received, doubt FROM event SEMI JOIN repeated USING (id)
    ORDER BY id, seq, doubt = 2, received, file, line
"""


def replay(check: Check) -> None:
    """Fill the table `outcome` by deduplicating the events, commit by commit."""
    # Events of lost archive files are read from the tables: later events may repeat them.
    check.rows(_TRUST, check.unverifiable)
    for one in (commit.replaces for commit in check.active if commit.replaces):
        for table in one.tables or (None,):
            values = (one.base, one.since, one.until, table)
            check.rows("INSERT INTO replaced VALUES (?, ?, ?, ?)", *values)
    check.db.execute(_SINGLE)
    repeated = check.db.cursor().execute(_REPEATED)
    check.insert("outcome", _outcomes(check, iter(repeated.fetchone, None)))


_NEVER_REMOVED = 1 << 62
"""Instead of the commit of a row that was read from the tables, and so is still there."""
Kept = tuple[int, int, str]
"""When a row was received, its commit and its table."""


def _outcomes(check: Check, rows: Iterable[Any]) -> Iterator[tuple[int, str, str, int, bool, bool]]:
    windows = {commit.seq: commit.window for commit in check.active}
    replacements = [(one.seq, one.replaces) for one in check.active if one.replaces]
    for identity, same in groupby(rows, key=lambda row: row[2]):
        kept: list[Kept] = []
        before = 0
        for seq, table, _, received, doubt in same:
            for number, one in replacements:
                if before < number <= seq:
                    kept = [row for row in kept if not one.covers(row[1], row[2], row[0])]
            before = seq
            if _is_duplicate(kept, received, windows[seq]):
                check.recounts[seq]["unsure" if doubt > 0 else "duplicates"] += 1
                continue
            landed_by = _NEVER_REMOVED if doubt < 0 else seq
            removed = any(one.covers(landed_by, table, received) for _, one in replacements)
            # Whether an event was suppressed or its row was removed later cannot be told apart.
            if doubt < 2 or removed:
                insort(kept, (received, landed_by, table))
            yield seq, table, identity, received, doubt < 2, removed


def _is_duplicate(kept: list[Kept], received: int, window: int) -> bool:
    at = bisect(kept, received, key=lambda row: row[0])
    return any(abs(received - row[0]) <= window for row in kept[max(0, at - 1) : at + 1])


_DELETE_SUPPRESSED = """
    DELETE FROM outcome WHERE rowid IN (
        SELECT rowid FROM outcome WHERE seq = ? AND NOT kept
        -- Those of erased ids last: they may be duplicates, and need not be there anyway.
        ORDER BY id IN (FROM erased_id), removed, received, id LIMIT ?)
"""


def discount_suppressed(check: Check) -> None:
    """Treat missing events as suppressed, up to the number that each commit suppressed.

    Updates `outcome` and `check.recounts`.
    """
    missing = dict(check.rows("SELECT seq, count(*) FROM outcome WHERE NOT kept GROUP BY seq"))
    for commit in check.active:
        counts, budget = check.recounts[commit.seq], commit.counts["suppressed"]
        # Suppressed users also have events in skipped tables, and duplicates.
        skipped = max(0, min(counts["skipped"] - commit.counts["skipped"], budget))
        nowhere = min(missing.get(commit.seq, 0), budget - skipped)
        again = min(counts["unsure"], budget - skipped - nowhere)
        counts["skipped"] -= skipped
        counts["duplicates"] += counts["unsure"] - again
        counts["suppressed"] = skipped + nowhere + again
        if nowhere:
            check.rows(_DELETE_SUPPRESSED, commit.seq, nowhere)
    for seq, landed in check.rows("SELECT seq, count(*) FROM outcome GROUP BY seq"):
        check.recounts[seq]["landed"] = landed
