"""Merging files of the message-id index."""

from pathlib import Path

import numpy as np

from eventlake.kernels.dedupe import Ids, Ints, hash_ids
from eventlake.ledger import Ledger
from eventlake.model.commit import IdFile
from eventlake.model.layout import DEFAULT_LAYOUT
from eventlake.pipeline.id_files import read_ids, read_index_file, write_ids
from eventlake.pipeline.merge_ids import merge_ids
from eventlake.pipeline.plan import MAX_MERGED_ROWS, MERGE_FILES, WEEK, plan_merges
from eventlake.stores import Disk


def file(number: int, rows: int = 10, first: int = 0, last: int = 0) -> IdFile:
    return IdFile(path=f"ids/{number}", rows=rows, first=first, last=last)


def test_few_files_stay_as_they_are() -> None:
    assert plan_merges([file(number) for number in range(MERGE_FILES - 1)]) == ()


def test_many_files_of_one_size_are_merged() -> None:
    files = [file(number) for number in range(MERGE_FILES + 3)]
    assert plan_merges(files) == (tuple(files[:MERGE_FILES]),)


def test_sizes_are_merged_apart() -> None:
    small = [file(number, rows=10) for number in range(MERGE_FILES - 1)]
    large = [file(100 + number, rows=700) for number in range(MERGE_FILES)]
    assert plan_merges([*small, *large]) == (tuple(large),)


def test_weeks_are_merged_apart_and_files_of_several_weeks_never() -> None:
    one = [file(number, first=5, last=WEEK - 1) for number in range(MERGE_FILES - 1)]
    next_week = [file(50 + number, first=WEEK, last=WEEK + 5) for number in range(MERGE_FILES)]
    wide = [file(100 + number, first=0, last=3 * WEEK) for number in range(MERGE_FILES)]
    assert plan_merges([*one, *next_week, *wide]) == (tuple(next_week),)


def test_what_does_not_fit_into_memory_stays() -> None:
    files = [file(number, rows=MAX_MERGED_ROWS // 4) for number in range(MERGE_FILES)]
    assert plan_merges(files) == ()


def test_a_merged_file_has_all_ids_in_order(tmp_path: Path) -> None:
    store = Disk(str(tmp_path))
    ledger = Ledger(store, DEFAULT_LAYOUT, "web")
    files = []
    for number in range(3):
        high, low = hash_ids(f"{number}-{n}" for n in range(50))
        write_ids(store, f"ids/{number}", Ids(high, low, np.arange(50) + 100 * number))
        files.append(file(number, 50, 100 * number, 100 * number + 49))
    (merge,) = merge_ids(ledger, "segment-stage/7", "7", [files])
    assert merge.replaces == ("ids/0", "ids/1", "ids/2")
    assert (merge.file.rows, merge.file.first, merge.file.last) == (150, 0, 249)
    found = read_ids(store, merge.file.staged)
    assert sorted(found.received.tolist()) == [100 * a + b for a in range(3) for b in range(50)]
    assert (np.diff(found.high) >= 0).all()


def test_removed_ids_are_not_merged(tmp_path: Path) -> None:
    store = Disk(str(tmp_path))
    high, low = hash_ids(["a", "b", "b"])
    write_ids(store, "ids/0", Ids(high, low, np.array([1, 2, 9])))
    write_ids(store, "ids/removed", Ids(high[1:2], low[1:2], np.array([2])))
    index = file(0, 3, 1, 9).model_copy(update={"without": ("ids/removed",)})
    assert read_index_file(store, index).received.tolist() == sorted_by_hash(high, [1, 2, 9], {2})
    ledger = Ledger(store, DEFAULT_LAYOUT, "web")
    (merge,) = merge_ids(ledger, "segment-stage/7", "7", [[index]])
    assert (merge.file.rows, merge.file.first, merge.file.last) == (2, 1, 9)
    assert merge.file.without == ()


def sorted_by_hash(high: Ints, received: list[int], left_out: set[int]) -> list[int]:
    ordered = [received[at] for at in np.argsort(high, kind="stable")]
    return [one for one in ordered if one not in left_out]
