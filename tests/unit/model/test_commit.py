"""Plans and commits: the books, and JSON that gives the same value back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlake.model.commit import (
    Commit,
    Counts,
    DataFile,
    IdFile,
    Input,
    Plan,
    StagedFile,
    TableCommit,
)
from eventlake.model.naming import Call, Naming
from eventlake.model.schema import Column, new_table
from eventlake.model.settings import source_settings
from eventlake.model.types import Type

KINDS = ("landed", "duplicates", "suppressed", "quarantined", "skipped")


@given(st.lists(st.integers(0, 10**12), min_size=5, max_size=5), st.integers(0, 10**12))
def test_the_books_balance_when_the_sum_is_what_was_received(
    sizes: list[int], rescued: int
) -> None:
    counts = Counts(received=sum(sizes), rescued=rescued, **dict(zip(KINDS, sizes, strict=True)))
    assert counts.balanced
    assert not counts.model_copy(update={"received": sum(sizes) + 1}).balanced


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_counts(kind: str) -> None:
    assert Counts(received=1, **{kind: 1}).balanced
    assert not Counts(**{kind: 1}).balanced


def test_rescued_values_are_no_events() -> None:
    assert Counts(rescued=5).balanced


def test_counts_add_up() -> None:
    one = Counts(received=3, landed=1, duplicates=2, rescued=4)
    other = Counts(received=3, suppressed=1, quarantined=1, skipped=1)
    assert one + other == Counts(
        received=6,
        landed=1,
        duplicates=2,
        suppressed=1,
        quarantined=1,
        skipped=1,
        rescued=4,
    )


def file(day: str, hr: str) -> DataFile:
    stats = {"received_at": (0, "2026-11-01T07:00:00.000000Z", None), "n": (2, -1, 2**63 - 1)}
    partition = {"day": day, "hr": hr}
    return DataFile(path=f"{day}/{hr}", rows=1, bytes=10, partition=partition, stats=stats)


TABLE = new_table("page", Call.PAGE, Naming.WAREHOUSE)
DONE = TableCommit(
    table=TABLE,
    counts=Counts(received=4, landed=3, duplicates=1),
    new_columns=(Column(name="title", type=Type.STRING),),
    is_new=True,
    adds=(file("2026-11-02", "00"), file("2026-11-01", "07"), file("2026-11-01", "07")),
    removes=(file("2026-11-03", "00"),),
)
COMMIT = Commit(
    run_id="1793518200123456789",
    settings=source_settings(source="web", naming="native", skip_events=["é"]),
    inputs=(
        Input(uri="file:///a%20b.gz", fingerprint="1-2", size=1, origin=("file:///c.gz", "1-3")),
    ),
    counts=Counts(received=5, landed=3, duplicates=1, quarantined=1),
    tables=(DONE,),
    ids=(IdFile(path="i", rows=3, first=-1, last=2**53 + 1, staged="s"),),
    quarantine=StagedFile(staged="s", path="q"),
    abandons=("1",),
)


def test_each_partition_touched_once_and_in_order() -> None:
    assert DONE.partitions == (
        {"day": "2026-11-01", "hr": "07"},
        {"day": "2026-11-02", "hr": "00"},
    )


def test_json_gives_the_same_commit_back() -> None:
    assert Commit.from_json(COMMIT.to_json()) == COMMIT


def test_json_gives_the_same_plan_back() -> None:
    plan = Plan(
        run_id="1",
        settings=COMMIT.settings,
        base=7,
        inputs=COMMIT.inputs,
        tables={"page": TABLE},
        ids=COMMIT.ids,
    )
    assert Plan.from_json(plan.to_json()) == plan


def test_a_field_that_nobody_knows_is_refused() -> None:
    body = json.loads(COMMIT.to_json()) | {"colour": "red"}
    with pytest.raises(ValueError, match="colour"):
        Commit.from_json(json.dumps(body).encode())


def test_a_copied_file_is_known_by_its_origin_too() -> None:
    copied = Input(uri="file:///lake/x", fingerprint="1-2", size=1, origin=("file:///x", "1-3"))
    assert copied.identities == (("file:///lake/x", "1-2"), ("file:///x", "1-3"))
    assert Input(uri="file:///x", fingerprint="1-2", size=1).identities == (("file:///x", "1-2"),)
