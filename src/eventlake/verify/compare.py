"""What differs between the archive, the tables, the books and the quarantine."""

from collections import Counter, defaultdict

import pyarrow as pa

from eventlake.verify.check import EXAMPLES, Check
from eventlake.verify.ledger import BOOKS, Commit
from eventlake.verify.parquet import File, query_parquet
from eventlake.verify.result import TableCheck

_SENTENCES = {
    "missing": "events of the archive are missing",
    "extra": "rows are not from the archive",
    "doubled": "rows are there already",
    "misplaced": "rows are in the wrong partition",
}
_PLACES = {
    "day/hour": "day=%Y-%m-%d/hr=%H",
    "year/month/day/hour": "year=%Y/month=%m/day=%d/hr=%H",
    "year/month/day": "year=%Y/month=%m/day=%d",
    "day": "day=%Y-%m-%d",
}
_FINDINGS = """
    WITH
    landed AS (SELECT tbl, id, received, count(*) AS n FROM found GROUP BY ALL),
    odd AS MATERIALIZED (FROM landed ANTI JOIN outcome USING (tbl, id, received)),
    near AS MATERIALIZED (
        SELECT DISTINCT odd.* FROM odd JOIN landed other ON odd.id = other.id
        AND (odd.tbl <> other.tbl OR odd.received <> other.received)
        AND abs(odd.received - other.received) <= $window),
    finding AS (
        SELECT 'missing' AS kind, tbl, id, 1 AS n
        FROM outcome ANTI JOIN landed USING (tbl, id, received)
        UNION ALL SELECT 'doubled', tbl, id, n - 1 FROM landed WHERE n > 1
        UNION ALL SELECT 'doubled', tbl, id, 1 FROM near
        UNION ALL SELECT 'extra', tbl, id, 1 FROM odd ANTI JOIN near USING (tbl, id, received)
        UNION ALL SELECT 'misplaced', file.tbl, id, 1 FROM found JOIN file ON number = found.file
        WHERE strftime(make_timestamp(received), $place) <> place)
    SELECT tbl, kind, sum(n)::INT8, min(id, $examples) FROM finding GROUP BY ALL ORDER BY ALL
"""


def compare(check: Check) -> tuple[TableCheck, ...]:
    """The differences of each table, which are told as problems too."""
    counts: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for kind, rows in (("expected", "outcome"), ("found", "found")):
        for table, n in check.rows(f"SELECT tbl, count(*) FROM {rows} GROUP BY tbl"):  # noqa: S608
            counts[table][kind] = n
    place, window = _PLACES[check.settings["date_partition"]], check.commits[-1].window
    given = {"place": place, "window": window, "examples": EXAMPLES + 1}
    for table, kind, n, examples in check.db.execute(_FINDINGS, given).fetchall():
        counts[table][kind] = n
        check.report(f"table {table}: {n} {_SENTENCES[kind]}", examples or ["(no id)"])
    return tuple(TableCheck(table=table, **counts[table]) for table in sorted(counts))


def check_books(check: Check) -> None:
    """Whether every commit balances and says what the archive and the quarantine say."""
    quarantine = _quarantine(check)
    for commit in check.commits:
        books = {f"table {name}": counts for name, counts in commit.tables.items()}
        unbalanced = [name for name, c in (books | {"all": commit.counts}).items() if _is_off(c)]
        check.report(f"commit {commit.seq}: the books do not balance", unbalanced)
        kept = quarantine.pop(commit.run, Counter())
        differs = _differences(
            {"quarantined": commit.counts["quarantined"]}, {"quarantined": kept.total()}
        )
        check.report(f"commit {commit.seq}, and what its quarantine holds", differs)
        if commit.seq not in check.gaps:
            _check_counts(check, commit, kept)
    check.report("runs in the quarantine that never committed", quarantine.keys())


def _check_counts(check: Check, commit: Commit, kept: Counter[str]) -> None:
    ours = check.ours[commit.seq]
    differs = _differences({name: commit.counts[name] for name in BOOKS}, ours)
    check.report(f"commit {commit.seq}, and what the archive gives", differs)
    reasons = ours.keys() - {*BOOKS, "unsure"} | kept.keys()
    differs = _differences({reason: kept[reason] for reason in reasons}, ours)
    check.report(f"quarantine of commit {commit.seq}, and what the archive gives", differs)


def _is_off(books: dict[str, int]) -> bool:
    return books["received"] != sum(books[name] for name in BOOKS[1:])


def _differences(said: dict[str, int], ours: dict[str, int]) -> list[str]:
    return [f"{name} {n}, not {ours[name]}" for name, n in said.items() if n != ours[name]]


def _quarantine(check: Check) -> dict[str, Counter[str]]:
    """By run how many lines were kept for each reason."""
    paths = check.place.files(f"segment-data/quarantine/{check.folder}")
    bodies = (commit.body for commit in check.commits)
    named = {body["quarantine"]["path"] for body in bodies if "quarantine" in body}
    check.report("quarantine files that a commit names and that are gone", named - paths.keys())
    files = [File(path) for path in paths if path.endswith(".parquet")]
    query = "SELECT run_id, reason, count(*) FROM rows GROUP BY ALL"
    columns = pa.schema([("run_id", pa.string()), ("reason", pa.string())])
    kept: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for run, reason, n in query_parquet(check, query, files, columns):
        kept[run][reason] += n
    return kept
