"""Compares the archive with the tables, the commits' counts and the quarantine."""

from collections import Counter, defaultdict

import pyarrow as pa

from eventlake.verify.check import MAX_EXAMPLES, Check
from eventlake.verify.erasures import count_erased_lines, count_erased_quarantine
from eventlake.verify.ledger import COUNTS, Commit, live_objects
from eventlake.verify.parquet import File, query_parquet
from eventlake.verify.result import TableCheck

_SENTENCES = {
    "missing": "events of the archive are missing",
    "extra": "rows are not from the archive",
    "doubled": "rows are duplicates",
    "misplaced": "rows are in the wrong partition",
}
_PARTITION_FORMATS = {
    "day/hour": "day=%Y-%m-%d/hr=%H",
    "year/month/day/hour": "year=%Y/month=%m/day=%d/hr=%H",
    "year/month/day": "year=%Y/month=%m/day=%d",
    "day": "day=%Y-%m-%d",
}
_FINDINGS = """
    WITH
    landed AS (SELECT tbl, id, received, count(*) AS n FROM stored GROUP BY ALL),
    unexpected AS MATERIALIZED (FROM landed ANTI JOIN expected USING (tbl, id, received)),
    repeat AS MATERIALIZED (
        SELECT DISTINCT unexpected.* FROM unexpected JOIN landed other ON unexpected.id = other.id
        AND (unexpected.tbl <> other.tbl OR unexpected.received <> other.received)
        AND abs(unexpected.received - other.received) <= $window),
    finding AS (
        SELECT 'missing' AS kind, tbl, id, 1 AS n
        FROM expected ANTI JOIN landed USING (tbl, id, received)
        UNION ALL SELECT 'doubled', tbl, id, n - 1 FROM landed WHERE n > 1
        UNION ALL SELECT 'doubled', tbl, id, 1 FROM repeat
        UNION ALL SELECT 'extra', tbl, id, 1
        FROM unexpected ANTI JOIN repeat USING (tbl, id, received)
        UNION ALL SELECT 'misplaced', file.tbl, id, 1 FROM stored JOIN file ON number = stored.file
        WHERE strftime(make_timestamp(received), $format) <> part)
    SELECT tbl, kind, sum(n)::INT8, min(id, $examples) FROM finding GROUP BY ALL ORDER BY ALL
"""


def compare(check: Check) -> tuple[TableCheck, ...]:
    """Compare each table with the archive, and report the differences as problems."""
    counts: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for kind, rows in (("expected", "expected"), ("found", "stored")):
        for table, n in check.rows(f"SELECT tbl, count(*) FROM {rows} GROUP BY tbl"):  # noqa: S608
            counts[table][kind] = n
    path_format, window = (
        _PARTITION_FORMATS[check.settings["date_partition"]],
        check.commits[-1].window,
    )
    parameters = {"format": path_format, "window": window, "examples": MAX_EXAMPLES + 1}
    for table, kind, n, examples in check.db.execute(_FINDINGS, parameters).fetchall():
        counts[table][kind] = n
        check.report(f"table {table}: {n} {_SENTENCES[kind]}", examples or ["(no id)"])
    return tuple(TableCheck(table=table, **counts[table]) for table in sorted(counts))


def check_counts(check: Check) -> None:
    """Report commits whose counts do not add up, or differ from archive or quarantine."""
    quarantine = _count_quarantine(check)
    erased_lines, erased_quarantine = (
        count_erased_lines(check),
        count_erased_quarantine(check.active),
    )
    for commit in check.active:
        counts = {f"table {name}": table for name, table in commit.tables.items()}
        unbalanced = [
            name for name, c in (counts | {"all": commit.counts}).items() if not _adds_up(c)
        ]
        check.report(f"commit {commit.seq}: the counts do not add up", unbalanced)
        reasons = quarantine.pop(commit.run, Counter()) + _unquarantined(check, commit)
        reasons += erased_quarantine[commit.run]
        quarantined = commit.counts["quarantined"]
        differs = _differences({"quarantined": quarantined}, {"quarantined": reasons.total()})
        check.report(f"commit {commit.seq}, compared with its quarantine", differs)
        if commit.body.get("kind") == "redrive":
            lines = sum(sum(n.values()) for n in commit.unquarantined.values())
            differs = _differences({"received": commit.counts["received"]}, {"received": lines})
            check.report(f"commit {commit.seq}, compared with the lines it redrove", differs)
        if commit.seq not in check.unverifiable:
            _compare_with_archive(check, commit, reasons, erased_lines[commit.seq])
    check.report("runs in the quarantine that never committed", quarantine.keys())


def _unquarantined(check: Check, commit: Commit) -> Counter[str]:
    """By reason, the lines of a commit's quarantine that later commits took out of it."""
    taken = (later.unquarantined.get(commit.run, {}) for later in check.active)
    return sum(map(Counter, taken), Counter[str]())


def _compare_with_archive(
    check: Check, commit: Commit, quarantined: Counter[str], erased: Counter[str]
) -> None:
    """Report differences; `quarantined` and `erased` are lines of the commit, also by reason."""
    recount = check.recounts[commit.seq]
    names: tuple[str, ...] = COUNTS
    if _is_uncertain(check, commit):
        names = ("received", "quarantined")
    if commit.replaces and _is_erased(check, commit):
        names = ()  # which of the erased lines it read is not known
    differs = _differences({name: commit.counts[name] - erased[name] for name in names}, recount)
    check.report(f"commit {commit.seq}, compared with the archive", differs)
    reasons = recount.keys() - {*COUNTS, "unsure"} | quarantined.keys()
    kept = {reason: quarantined[reason] - erased[reason] for reason in reasons}
    differs = _differences(kept, recount)
    check.report(f"quarantine of commit {commit.seq}, compared with the archive", differs)


def _is_uncertain(check: Check, commit: Commit) -> bool:
    """Whether it cannot be told which events landed, were suppressed or were duplicates.

    That is by the rows that a commit has landed. They may be gone, or merged with those of others.
    """
    is_replaced = any(
        commit.seq in one.origins or (one.replaces and one.replaces.base >= commit.seq)
        for one in check.active
    )
    earlier = (one for one in check.active if one.seq <= commit.seq)
    is_unclear = is_replaced and any(one.counts["suppressed"] for one in earlier)
    return is_unclear or _is_erased(check, commit)


def _is_erased(check: Check, commit: Commit) -> bool:
    """Whether a user was forgotten after a commit."""
    return any("erasure" in one.body for one in check.active if one.seq > commit.seq)


def _adds_up(counts: dict[str, int]) -> bool:
    return counts["received"] == sum(counts[name] for name in COUNTS[1:])


def _differences(committed: dict[str, int], actual: dict[str, int]) -> list[str]:
    return [f"{name} {n}, not {actual[name]}" for name, n in committed.items() if n != actual[name]]


def _count_quarantine(check: Check) -> dict[str, Counter[str]]:
    """By run, the number of quarantined lines for each reason."""
    folder = f"{check.prefixes.quarantine}/{check.folder}"
    paths = {path for path in check.files.files(folder) if path.endswith(".parquet")}
    live = {path for path in live_objects(check.commits) if path.startswith(f"{folder}/")}
    check.report("quarantine files of commits that are gone", live - paths)
    check.report("quarantine files that no commit names", paths - live)
    files = [File(path) for path in sorted(live & paths)]
    query = "SELECT run_id, reason, count(*) FROM rows GROUP BY ALL"
    columns = pa.schema([("run_id", pa.string()), ("reason", pa.string())])
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for run, reason, n in query_parquet(check, query, files, columns):
        counts[run][reason] += n
    return counts
