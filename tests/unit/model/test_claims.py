"""Which sources may share a lake: folders, ids, databases and prefixes."""

import pytest

from eventlake.errors import InvalidSettings
from eventlake.model.claims import Claims
from eventlake.model.settings import source_settings


def claims(*sources: dict[str, object]) -> Claims:
    found = Claims()
    for one in sources:
        found = found.with_source(source_settings(**one))
    return found


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"source": "a"}, {"source": "b"}),
        (
            {"source": "a", "database": "shared", "table_prefix": "a"},
            {"source": "b", "database": "shared", "table_prefix": "b"},
        ),
        # The same slug is no clash as long as id, folder and database differ.
        ({"source": "web", "source_id": "1"}, {"source": "web", "source_id": "2", "database": "x"}),
    ],
)
def test_sources_that_may_coexist(one: dict[str, object], other: dict[str, object]) -> None:
    assert len(claims(one, other).by_folder) == 2


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        ({"source": "a", "database": "x"}, {"source": "b", "database": "x"}, "a has tables there"),
        ({"source": "a-b"}, {"source": "a_b"}, "database is 'a_b'"),
        (
            {"source": "a", "database": "x", "table_prefix": "p"},
            {"source": "b", "database": "x"},
            "with the table_prefix 'p'",
        ),
        (
            {"source": "a", "database": "x", "table_prefix": "p"},
            {"source": "b", "database": "x", "table_prefix": "p_q"},
            "table_prefix of its own",
        ),
        (
            {"source": "a", "source_id": "1"},
            {"source": "a", "source_id": "1", "partition_by_slug": True},
            "partition_by_slug False",
        ),
        (
            {"source": "a", "source_id": "1", "partition_by_slug": True},
            {"source": "b", "source_id": "1", "partition_by_slug": True},
            "was loaded as 'a'",
        ),
        (
            {"source": "web", "source_id": "1", "partition_by_slug": True},
            {"source": "b", "source_id": "web"},
            "the folder web holds the source web with the id 1",
        ),
        (
            {"source": "a", "source_id": "1", "partition_by_slug": True, "ledger_folder": "1"},
            {"source": "b", "source_id": "a"},
            "the folder a holds the source a with the id 1",
        ),
    ],
)
def test_sources_that_may_not(
    one: dict[str, object], other: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidSettings) as raised:
        claims(one, other)
    assert message in str(raised.value)


@pytest.mark.parametrize("slug", ["web", "7"])
def test_a_slug_without_an_id_that_could_mean_a_source_with_one(slug: str) -> None:
    known = claims({"source": "web", "source_id": "7"})
    with pytest.raises(InvalidSettings, match="the source web with the id 7: say which one"):
        known.with_source(source_settings(source=slug, database="other"))


def test_a_name_that_a_source_has_left_stays_its_own() -> None:
    left = claims({"source": "a", "database": "shared"}, {"source": "a", "database": "other"})
    assert left.by_folder["a"].names == (("shared", ""), ("other", ""))
    with pytest.raises(InvalidSettings, match="a has tables there"):
        left.with_source(source_settings(source="b", database="shared"))
    again = left.with_source(source_settings(source="a", database="shared"))
    assert again == left


def test_a_source_may_change_its_slug() -> None:
    renamed = claims({"source": "a", "source_id": "1"}, {"source": "b", "source_id": "1"})
    assert renamed.by_folder["1"].source == "b"
