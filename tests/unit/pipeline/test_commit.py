"""Conflicts between commits, and rebasing one on another."""

from base64 import b64encode
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eventlake.errors import Conflict
from eventlake.kernels.dedupe import DAY_MICROS, Ids, hash_ids, pack_hashes
from eventlake.ledger import Ledger
from eventlake.model.commit import (
    Commit,
    CommitKind,
    Counts,
    DataFile,
    IdFile,
    IdMerge,
    Input,
    Rewrite,
    TableCommit,
)
from eventlake.model.layout import DEFAULT_LAYOUT
from eventlake.model.naming import Call, Naming
from eventlake.model.schema import Column, new_table
from eventlake.model.settings import source_settings
from eventlake.model.types import Type
from eventlake.pipeline.commit import append_commit, check_conflict, rebase
from eventlake.pipeline.id_files import write_ids
from eventlake.stores import Disk

SETTINGS = source_settings(source="web")
LOG = "segment-logs/web/1 2.gz"


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(Disk(str(tmp_path)), DEFAULT_LAYOUT, "web")


def commit(
    ledger: Ledger,
    run: str,
    ids: dict[str, int] | list[tuple[str, int]] = (),
    published: bool = True,
    **fields: Any,
) -> Commit:
    """A commit with an input of its own, and landed ids with their receipt times."""
    kept = list(ids.items()) if isinstance(ids, dict) else list(ids)
    final, staged = DEFAULT_LAYOUT.ids_path("web", run, 0), f"segment-stage/{run}/kept.parquet"
    if kept:
        high, low = hash_ids(identity for identity, _ in kept)
        moments = np.array([moment for _, moment in kept], np.int64)
        write_ids(ledger.store, final if published else staged, Ids(high, low, moments))
    fields = {
        "inputs": (Input(uri=f"file:///{run}.gz", fingerprint="1", size=1),),
        "counts": Counts(),
        "settings": SETTINGS,
        "ids": (IdFile(path=final, rows=len(kept), first=0, last=0, staged=staged),)
        if kept
        else (),
        **fields,
    }
    return Commit(run_id=run, **fields)


def file(uri: str, **fields: Any) -> tuple[Input, ...]:
    return (Input(uri=uri, fingerprint="1", size=1, **fields),)


# Conflicts


def test_runs_that_share_nothing_both_stand(ledger: Ledger) -> None:
    one, other = commit(ledger, "1", {"a": 0}), commit(ledger, "2", {"b": 0})
    assert append_commit(ledger, 0, one) == (1, one)
    assert append_commit(ledger, 0, other) == (2, other)
    assert [commit for _, commit in ledger.commits_after(0)] == [one, other]


@pytest.mark.parametrize("published", [True, False])
@pytest.mark.parametrize("apart", [0, 100 * DAY_MICROS])
def test_a_shared_message_id(ledger: Ledger, published: bool, apart: int) -> None:
    append_commit(ledger, 0, commit(ledger, "1", {"a": 0, "b": 5}, published))
    mine = commit(ledger, "2", {"c": 0, "b": apart}, published=False)
    message = r"web \(1\) .* same message ids; .* landed nothing: run it again"
    with pytest.raises(Conflict, match=message):
        append_commit(ledger, 0, mine)
    assert len(ledger.commits_after(0)) == 1


def test_an_id_that_one_run_kept_twice_is_no_conflict(ledger: Ledger) -> None:
    append_commit(ledger, 0, commit(ledger, "1", {"b": 0}))
    append_commit(ledger, 0, commit(ledger, "2", [("a", 0), ("a", 20 * DAY_MICROS)]))


def test_a_shared_file(ledger: Ledger) -> None:
    append_commit(
        ledger, 0, commit(ledger, "1", inputs=file("file:///x.gz") + file("file:///y.gz"))
    )
    with pytest.raises(Conflict, match="loaded some of the same files"):
        append_commit(
            ledger, 0, commit(ledger, "2", inputs=file("file:///z.gz") + file("file:///y.gz"))
        )


def test_a_file_and_its_copy_are_the_same(ledger: Ledger) -> None:
    copy = file("file:///lake/x.gz", origin=("file:///x.gz", "1"))
    append_commit(ledger, 0, commit(ledger, "1", inputs=copy))
    with pytest.raises(Conflict, match="same files"):
        append_commit(ledger, 0, commit(ledger, "2", inputs=file("file:///x.gz")))


def test_a_file_that_has_changed_since_is_another(ledger: Ledger) -> None:
    append_commit(ledger, 0, commit(ledger, "1", inputs=file("file:///x.gz")))
    changed = (Input(uri="file:///x.gz", fingerprint="2", size=1),)
    append_commit(ledger, 0, commit(ledger, "2", inputs=changed))


def test_two_runs_that_replace_the_same_file(ledger: Ledger) -> None:
    old = DataFile(path="old.parquet", rows=1, bytes=1, partition={})
    schema = new_table("orders", Call.TRACK, Naming.SEGMENT)
    change = TableCommit(table=schema, counts=Counts(), removes=(old,))
    append_commit(ledger, 0, commit(ledger, "1", tables=(change,)))
    with pytest.raises(Conflict, match="replaced some of the same files"):
        append_commit(ledger, 0, commit(ledger, "2", tables=(change,)))


def rewrites(*paths: str) -> tuple[Rewrite, ...]:
    return tuple(Rewrite(path=path) for path in paths)


def test_two_runs_that_rewrite_the_same_object(ledger: Ledger) -> None:
    append_commit(ledger, 0, commit(ledger, "1", rewrites=rewrites("a", "b")))
    append_commit(ledger, 0, commit(ledger, "2", rewrites=rewrites("c")))
    with pytest.raises(Conflict, match="rewrites an object that the other uses"):
        append_commit(ledger, 0, commit(ledger, "3", rewrites=rewrites("d", "b")))


@pytest.mark.parametrize("rewriter", ["1", "2"])
def test_a_run_that_rewrites_what_another_has_read(ledger: Ledger, rewriter: str) -> None:
    fields = {"inputs": file("lake:segment-logs/web/1%202.gz")}, {"rewrites": rewrites(LOG)}
    reader, writer = ("2", "1") if rewriter == "1" else ("1", "2")
    both = {reader: fields[0], writer: fields[1]}
    append_commit(ledger, 0, commit(ledger, "1", **both["1"]))
    with pytest.raises(Conflict, match="rewrites an object that the other uses"):
        append_commit(ledger, 0, commit(ledger, "2", **both["2"]))


def compaction(*merged: str, partition: str = "2026-11-01") -> TableCommit:
    """A change that merges files of a partition into one."""
    old = tuple(data_file(path, partition) for path in merged)
    new = data_file(f"{partition}/merged.parquet", partition)
    return done(A).model_copy(update={"removes": old, "adds": (new,)})


def data_file(path: str, partition: str = "2026-11-01") -> DataFile:
    return DataFile(path=path, rows=1, bytes=1, partition={"day": partition})


def test_a_replay_removes_what_a_compaction_made_of_its_files(ledger: Ledger) -> None:
    compacted = commit(
        ledger, "1", tables=(compaction("a", "b"),), inputs=(), kind=CommitKind.COMPACT
    )
    append_commit(ledger, 0, compacted)
    removes = tuple(data_file(path) for path in ("a", "b", "c"))
    mine = done(A).model_copy(update={"removes": removes})
    _, replay = append_commit(ledger, 0, commit(ledger, "2", tables=(mine,)))
    assert replay.removed_paths == {"c", "2026-11-01/merged.parquet"}


def test_a_compaction_of_files_that_a_replay_does_not_know(ledger: Ledger) -> None:
    compacted = commit(
        ledger, "1", tables=(compaction("a", "late"),), inputs=(), kind=CommitKind.COMPACT
    )
    append_commit(ledger, 0, compacted)
    mine = done(A).model_copy(update={"removes": (data_file("a"),)})
    with pytest.raises(Conflict, match="replaced some of the same files"):
        append_commit(ledger, 0, commit(ledger, "2", tables=(mine,)))


def removal(ledger: Ledger, run: str, removed: dict[str, int], landed: dict[str, int]) -> Commit:
    """A commit that removes rows with these ids, and lands others or the same."""
    ids = commit(ledger, f"{run}0", removed).ids
    return commit(ledger, run, landed, removed_ids=ids)


DUPLICATES = Counts(received=1, duplicates=1)


@pytest.mark.parametrize("removes_first", [True, False])
@pytest.mark.parametrize(
    ("landed", "counts", "conflicts"),
    [
        ({"a": 5}, DUPLICATES, True),  # b is gone, and the load may have had a duplicate of it
        ({"a": 5, "b": 6}, DUPLICATES, False),
        ({"a": 5}, Counts(), False),
    ],
)
def test_a_load_beside_a_run_that_removes_ids(
    ledger: Ledger, landed: dict[str, int], counts: Counts, conflicts: bool, removes_first: bool
) -> None:
    both = [removal(ledger, "1", {"a": 5, "b": 6}, landed), commit(ledger, "2", counts=counts)]
    first, second = both if removes_first else reversed(both)
    append_commit(ledger, 0, first)
    if conflicts:
        with pytest.raises(Conflict, match="removed or repeated message ids"):
            append_commit(ledger, 0, second)
    else:
        append_commit(ledger, 0, second)


@pytest.mark.parametrize(("duplicate", "conflicts"), [("b", True), ("c", False), ("a", False)])
def test_only_a_duplicate_of_a_removed_row_is_a_conflict(
    ledger: Ledger, duplicate: str, conflicts: bool
) -> None:
    """The removing run drops b and lands a again."""
    packed = pack_hashes(Ids(*hash_ids([duplicate]), np.zeros(1, np.int64)))
    hashes = b64encode(packed).decode()
    append_commit(ledger, 0, removal(ledger, "1", {"a": 5, "b": 6}, {"a": 5}))
    load = commit(ledger, "2", counts=DUPLICATES, duplicate_ids=hashes)
    if conflicts:
        with pytest.raises(Conflict, match="removed or repeated message ids"):
            append_commit(ledger, 0, load)
    else:
        append_commit(ledger, 0, load)


def test_of_two_compactions_of_a_file_the_second_is_a_conflict(ledger: Ledger) -> None:
    for_both = {"tables": (compaction("a", "b"),), "inputs": (), "kind": CommitKind.COMPACT}
    append_commit(ledger, 0, commit(ledger, "1", **for_both))
    with pytest.raises(Conflict, match="replaced some of the same files"):
        append_commit(ledger, 0, commit(ledger, "2", **for_both))


def test_a_merge_of_index_files_that_lost_ids_is_dropped(ledger: Ledger) -> None:
    file = IdFile(path="merged", rows=1, first=0, last=0)
    mine = commit(ledger, "2", merges=(IdMerge(file=file, replaces=("a", "b")),))
    assert rebase(mine, removal(ledger, "1", {"a": 5}, {"a": 5})).merges == ()


def test_a_column_with_another_type(ledger: Ledger) -> None:
    schema = new_table("orders", Call.TRACK, Naming.SEGMENT)
    total = Column(name="total", type=Type.BIGINT)
    mine = TableCommit(table=schema.with_columns((total,)), counts=Counts())
    now = total.model_copy(update={"type": Type.STRING})
    theirs = TableCommit(table=schema.with_columns((now,)), counts=Counts(), retyped=(now,))
    with pytest.raises(Conflict, match=r"gave orders\.total another type"):
        rebase(commit(ledger, "2", tables=(mine,)), commit(ledger, "1", tables=(theirs,)))


def test_a_run_that_was_held_for_dead(ledger: Ledger) -> None:
    append_commit(ledger, 0, commit(ledger, "1", abandons=("7", "2")))
    with pytest.raises(Conflict, match="treated this run as dead"):
        append_commit(ledger, 0, commit(ledger, "2"))
    append_commit(ledger, 0, commit(ledger, "3"))


@pytest.mark.parametrize(
    "other", [{"date_partition": "day"}, {"naming": "native"}], ids=lambda other: next(iter(other))
)
def test_two_first_runs_with_settings_that_cannot_both_be(
    ledger: Ledger, other: dict[str, str]
) -> None:
    first = commit(ledger, "1", tables=(done(A),))
    append_commit(
        ledger, 0, first.model_copy(update={"settings": source_settings(source="web", **other)})
    )
    with pytest.raises(Conflict):
        append_commit(ledger, 0, commit(ledger, "2", tables=(done(A),)))


def test_what_was_committed_before_the_plan_is_no_conflict(ledger: Ledger) -> None:
    append_commit(ledger, 0, commit(ledger, "1", {"a": 0}))
    append_commit(ledger, 1, commit(ledger, "2", {"a": 30 * DAY_MICROS}))
    assert ledger.read_state().sequence == 2


def test_every_commit_since_the_plan_is_looked_at(ledger: Ledger) -> None:
    for run in ("1", "2", "3"):
        append_commit(ledger, 0, commit(ledger, run, {run: 0}))
    with pytest.raises(Conflict, match=r"\(2\)"):
        append_commit(ledger, 0, commit(ledger, "4", {"2": 0}))
    append_commit(ledger, 2, commit(ledger, "5", {"2": 30 * DAY_MICROS}))
    assert [run for run, _ in ledger.commits_after(0)] == [1, 2, 3, 4]


def test_an_index_file_that_its_run_has_moved_meanwhile(ledger: Ledger) -> None:
    other = commit(ledger, "1", {"a": 0}, published=False)
    mine = commit(ledger, "2", {"a": 0}, published=False)
    ledger.store.publish(other.ids[0].staged, other.ids[0].path)
    with pytest.raises(Conflict):
        check_conflict(ledger.store, mine, other)


# Rebase


def done(
    *added: tuple[str, Type], known: tuple[tuple[str, Type], ...] = (), **fields: Any
) -> TableCommit:
    old, new = (tuple(Column(name=n, type=t) for n, t in pairs) for pairs in (known, added))
    table = new_table("orders", Call.TRACK, Naming.WAREHOUSE).with_columns(old + new)
    written = (DataFile(path="x", rows=1, bytes=1, partition={"day": "2026-11-01"}),)
    fields = {"adds": written, "is_new": not known, **fields}
    return TableCommit(table=table, counts=Counts(), new_columns=new, **fields)


A, B, C = ("a", Type.BIGINT), ("b", Type.STRING), ("c", Type.BOOLEAN)


def names(table: TableCommit) -> list[str]:
    return [column.name for column in table.table.columns[12:]]


def test_both_bring_columns(ledger: Ledger) -> None:
    append_commit(ledger, 0, commit(ledger, "1", tables=(done(B, C),)))
    _, second = append_commit(ledger, 0, commit(ledger, "2", tables=(done(A, B),)))
    (table,) = second.tables
    assert names(table) == ["b", "c", "a"]
    assert [column.name for column in table.new_columns] == ["a"]
    assert not table.is_new
    assert ledger.read_state().tables["orders"] == table.table


def test_three_in_a_row(ledger: Ledger) -> None:
    append_commit(ledger, 0, commit(ledger, "1", tables=(done(C),)))
    append_commit(ledger, 0, commit(ledger, "2", tables=(done(B),)))
    _, third = append_commit(ledger, 0, commit(ledger, "3", tables=(done(A, C),)))
    (table,) = third.tables
    assert names(table) == ["c", "b", "a"]


def test_a_column_of_two_types(ledger: Ledger) -> None:
    append_commit(ledger, 0, commit(ledger, "1", tables=(done(("a", Type.STRING)),)))
    with pytest.raises(Conflict, match=r"gave orders\.a another type"):
        append_commit(ledger, 0, commit(ledger, "2", tables=(done(A),)))


def test_together_they_have_too_many_columns(ledger: Ledger) -> None:
    tight = source_settings(source="web", max_columns=13)
    append_commit(ledger, 0, commit(ledger, "1", tables=(done(A),), settings=tight))
    with pytest.raises(Conflict, match="used up the columns that orders may have"):
        append_commit(ledger, 0, commit(ledger, "2", tables=(done(B),), settings=tight))
    _, same = append_commit(ledger, 0, commit(ledger, "3", tables=(done(A),), settings=tight))
    assert names(same.tables[0]) == ["a"]


def test_tables_that_only_one_touched_stay_as_they_are(ledger: Ledger) -> None:
    mine = commit(ledger, "2", tables=(done(A),))
    other = commit(ledger, "1")
    assert rebase(mine, other) == mine


def test_a_run_without_new_columns_takes_the_others(ledger: Ledger) -> None:
    mine = commit(ledger, "2", tables=(done(known=(A,)),))
    other = commit(ledger, "1", tables=(done(B, known=(A,)),))
    (table,) = rebase(mine, other).tables
    assert (names(table), table.new_columns) == (["a", "b"], ())


def test_a_table_begins_with_its_first_row(ledger: Ledger) -> None:
    all_duplicates = done(adds=(), is_new=False)
    mine = commit(ledger, "2", tables=(done(A),))
    (table,) = rebase(mine, commit(ledger, "1", tables=(all_duplicates,))).tables
    assert table.is_new
