"""What should have landed: the rule of duplicates, and those who were suppressed."""

from bisect import bisect, insort
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from eventlake.verify.check import Check

_TRUST = """
    INSERT INTO event SELECT seq, tbl, id, received, 0, 0, 0
    FROM (SELECT f.seq, r.tbl, r.id, r.received FROM found r JOIN file f ON f.number = r.file)
    ANTI JOIN event USING (seq, tbl, id, received) WHERE seq IN (SELECT unnest(?::INT[]))
"""
_SINGLE = """
    UPDATE event SET doubt = 1 FROM found r JOIN file f ON f.number = r.file WHERE doubt = 2
        AND r.id = event.id AND r.tbl = event.tbl AND r.received = event.received
        AND f.seq = event.seq;
    CREATE TABLE repeated AS SELECT id FROM event GROUP BY id HAVING count(*) > 1;
    INSERT INTO outcome
        SELECT seq, tbl, id, received, doubt < 2 FROM event ANTI JOIN repeated USING (id);
"""
_REPEATED = """
    SELECT seq, tbl, id, received, doubt FROM event SEMI JOIN repeated USING (id)
    ORDER BY id, seq, doubt = 2, received, file, line
"""


def replay(check: Check) -> None:
    """Apply the rule of duplicates, commit after commit; only an id that comes again needs it."""
    # What a lost archive file brought is taken from the tables: later events may repeat it.
    check.rows(_TRUST, check.gaps)
    check.db.execute(_SINGLE)
    repeated = check.db.cursor().execute(_REPEATED)
    check.insert("outcome", _outcomes(check, iter(repeated.fetchone, None)))


def _outcomes(check: Check, rows: Iterable[Any]) -> Iterator[tuple[int, str, str, int, bool]]:
    windows = {commit.seq: commit.window for commit in check.commits}
    for identity, same in groupby(rows, key=lambda row: row[2]):
        kept: list[int] = []
        for seq, table, _, received, doubt in same:
            if _is_near(kept, received, windows[seq]):
                check.ours[seq]["unsure" if doubt else "duplicates"] += 1
                continue
            if doubt < 2:
                insort(kept, received)
            yield seq, table, identity, received, doubt < 2


def _is_near(kept: list[int], moment: int, window: int) -> bool:
    at = bisect(kept, moment)
    return any(abs(moment - other) <= window for other in kept[max(0, at - 1) : at + 1])


_FORGET = """
    DELETE FROM outcome WHERE rowid IN (
        SELECT rowid FROM outcome WHERE seq = ? AND NOT kept ORDER BY received, id LIMIT ?)
"""


def settle_suppressed(check: Check) -> None:
    """Of the events that are nowhere, as many as were suppressed are right to be so."""
    left = dict(check.rows("SELECT seq, count(*) FROM outcome WHERE NOT kept GROUP BY seq"))
    for commit in check.commits:
        ours, budget = check.ours[commit.seq], commit.counts["suppressed"]
        # Whoever is suppressed is so in a skipped table too, and when sending a thing again.
        skipped = max(0, min(ours["skipped"] - commit.counts["skipped"], budget))
        nowhere = min(left.get(commit.seq, 0), budget - skipped)
        again = min(ours["unsure"], budget - skipped - nowhere)
        ours["skipped"] -= skipped
        ours["duplicates"] += ours["unsure"] - again
        ours["suppressed"] = skipped + nowhere + again
        if nowhere:
            check.rows(_FORGET, commit.seq, nowhere)
    for seq, landed in check.rows("SELECT seq, count(*) FROM outcome GROUP BY seq"):
        check.ours[seq]["landed"] = landed
