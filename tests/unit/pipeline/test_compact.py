"""Which files a compaction merges, and how many at a time."""

from collections.abc import Iterable

import pytest

from eventlake.ledger.files import LiveFile
from eventlake.pipeline.compact import list_small_files, select_merges
from eventlake.services.compaction import CompactResult, TableCompaction, compact_all

DAY = "2026-11-01"
NOON = f"{DAY}T12:00:00.000000Z"


def file(name: str, size: int = 10, day: str = DAY, hour: int | None = 1) -> LiveFile:
    """A file with events of one hour; without one, of another program."""
    at = f"{day}T{hour:02}:00:00.000000Z" if hour is not None else ""
    return LiveFile("orders", name, {"day": day}, 1, size, (at, at) if at else None)


def names(files: dict[str, list[LiveFile]]) -> dict[str, list[str]]:
    return {table: [one.path for one in of_table] for table, of_table in files.items()}


def small(files: Iterable[LiveFile]) -> list[str]:
    return names(list_small_files({"orders": list(files)}, NOON, 100)).get("orders", [])


def test_small_files_of_sealed_partitions() -> None:
    other = "2026-10-31"
    files = [file("a"), file("b", size=99), file("c", size=100), file("d", day=other)]
    assert small(files) == ["d", "a", "b"]
    assert small([*files, file("new", hour=12)]) == ["d"]
    assert small([*files, file("new", size=200, hour=13)]) == ["d"]


def test_files_of_other_programs_stay() -> None:
    assert small([file("a"), file("adopted", hour=None), file("b")]) == ["a", "b"]


def select(files: list[LiveFile], max_files: int = 100, max_bytes: int = 1000) -> list[str]:
    return names(select_merges({"orders": files}, max_files, max_bytes)).get("orders", [])


def test_a_single_file_is_not_merged() -> None:
    assert select([file("a"), file("b", day="2026-11-02")]) == []
    assert select([file("a"), file("b", day="2026-11-02"), file("c")]) == ["a", "c"]


@pytest.mark.parametrize(
    ("max_files", "max_bytes", "selected"),
    [
        (100, 10, ["x", "y", "d", "e"]),  # two at least, those with the first events
        (100, 25, ["x", "y", "z", "d", "e"]),
        (3, 100, ["x", "y", "z"]),
        (1, 10, ["x", "y"]),
        (4, 100, ["x", "y", "z", "d", "e"]),  # whole partitions
    ],
)
def test_a_commit_merges_so_many_at_a_time(
    max_files: int, max_bytes: int, selected: list[str]
) -> None:
    files = [file("z", hour=3), file("x", hour=1), file("y", hour=2)]
    files += [file("e", day="2026-11-02", hour=2), file("d", day="2026-11-02", hour=1)]
    assert select(files, max_files, max_bytes) == selected


def test_commits_add_up() -> None:
    def result(run: str, status: str, *tables: TableCompaction) -> CompactResult:
        times = {"compact": 1.5} if run else {}
        runs = (run,) if run else ()
        return CompactResult(
            source="web",
            lake="lake",
            status=status,
            run_ids=runs,
            tables=tables,
            bytes_after=5,
            timings=times,
        )

    one = TableCompaction(table="a", partitions=1, rows=2, files=3, bytes=4, files_after=1)
    two = one.model_copy(update={"table": "b"})
    results = iter([result("1", "finished", one), result("2", "finished", one, two)])
    nothing = result("", "nothing")
    total = compact_all(lambda: next(results, nothing))
    twice = TableCompaction(table="a", partitions=2, rows=4, files=6, bytes=8, files_after=2)
    assert (total.status, total.tables) == ("finished", (twice, two))
    assert (total.run_ids, total.bytes_after) == (("1", "2"), 10)
    assert total.timings == {"compact": 3.0}
    partial = iter([result("1", "finished", one), result("2", "partial", one)])
    assert compact_all(lambda: next(partial)).status == "partial"
