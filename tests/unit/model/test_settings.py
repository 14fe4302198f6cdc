"""Settings are checked when they are entered (the contract)."""

import pytest

from eventlake.errors import InvalidSettings
from eventlake.model.layout import DatePartition
from eventlake.model.naming import Naming
from eventlake.model.settings import SourceSettings, source_settings


def test_what_is_not_given_has_its_default() -> None:
    settings = source_settings(source="my-shop")
    assert settings.model_dump(mode="json") == {
        "source": "my-shop",
        "source_id": "my-shop",
        "workspace": "default",
        "date_partition": "day/hour",
        "naming": "segment",
        "column_naming": None,
        "database": "my_shop",
        "table_prefix": "",
        "partition_by_slug": False,
        "data_folder": "",
        "ledger_folder": "",
        "dedup_days": 7,
        "skip_events": [],
        "new_tables": "land",
        "land_events": [],
        "max_columns": 2000,
        "compression": "zstd",
        "compact_after": "",
    }
    assert source_settings(source="my-shop", database=None, dedup_days=None) == settings


def test_what_is_given() -> None:
    settings = source_settings(
        source="web",
        source_id="S.1-x",
        date_partition="year/month/day",
        naming="native",
        database="lake_1",
        table_prefix="eu",
        dedup_days=0,
        skip_events=["page"],
        max_columns=1,
    )
    assert settings.date_partition is DatePartition.YEAR_MONTH_DAY
    assert settings.naming is Naming.NATIVE
    assert (settings.database, settings.table_prefix) == ("lake_1", "eu")
    assert (settings.dedup_days, settings.skip_events, settings.max_columns) == (0, ("page",), 1)


def test_what_paths_call_the_source() -> None:
    given = {"source": "web", "source_id": "src1"}
    assert source_settings(**given).folder == "src1"
    assert source_settings(**given, partition_by_slug=True).folder == "web"
    assert source_settings(source="web").folder == "web"


NAMED = "letters, digits, '.', '_' and '-', beginning with a letter or digit"
WORD = "lower-case letters, digits and '_', at most 64"


@pytest.mark.parametrize(
    ("setting", "value", "allowed"),
    [
        ("source", "", NAMED),
        ("source", "a b", NAMED),
        ("source", "../etc", NAMED),
        ("source", "a/b", NAMED),
        ("source", "web\n", NAMED),
        ("source", "wéb", NAMED),
        ("source", "w" * 128, NAMED),
        ("source_id", "..", NAMED),
        ("workspace", "my space", NAMED),
        ("database", "Web", WORD),
        ("database", "a-b", WORD),
        ("database", "d" * 65, WORD),
        ("database", "temp", "DuckDB reserves this name; choose another (--database)"),
        ("database", "information_schema", "DuckDB and Athena reserve"),
        ("database", "spark_catalog", "Spark reserves this name"),
        ("table_prefix", "x" * 65, WORD),
        ("table_prefix", "注文", "it needs a letter or digit (a-z, 0-9)"),
        (
            "date_partition",
            "week",
            "it should be 'day/hour', 'year/month/day/hour', 'year/month/day' or 'day'",
        ),
        ("naming", "snowflake", "it should be 'segment', 'warehouse' or 'native'"),
        ("dedup_days", -1, "it should be greater than or equal to 0"),
        ("dedup_days", 3651, "it should be less than or equal to 3650"),
        ("dedup_days", "some", "it should be a whole number"),
        ("max_columns", 0, "it should be greater than or equal to 1"),
        ("max_columns", 100_001, "it should be less than or equal to 100000"),
        ("partition_by_slug", "maybe", "it should be true or false"),
        ("skip_events", "page", "it should be a list"),
    ],
)
def test_a_message_names_setting_value_and_what_is_allowed(
    setting: str, value: object, allowed: str
) -> None:
    with pytest.raises(InvalidSettings) as caught:
        source_settings(**{"source": "web", setting: value})
    assert f"{setting} is {value!r}: {allowed}" in str(caught.value)
    assert caught.value.code == "EventLake.InvalidSettings"
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize("slug", ["system", "TEMP", "pg-catalog", "global.temp"])
def test_a_slug_that_makes_a_reserved_database(slug: str) -> None:
    with pytest.raises(InvalidSettings, match=r"^database is '.*--database"):
        source_settings(source=slug)
    assert source_settings(source=slug, database="other").source == slug


def test_every_wrong_setting_is_named_at_once() -> None:
    with pytest.raises(InvalidSettings, match=r"naming is 'x': .*; dedup_days is -1: ") as caught:
        source_settings(source="web", naming="x", dedup_days=-1)
    assert str(caught.value).count("; ") == 1


def test_a_source_is_needed() -> None:
    with pytest.raises(InvalidSettings, match="source is missing"):
        source_settings()


def test_a_setting_that_there_is_not() -> None:
    with pytest.raises(InvalidSettings, match="colour is not a setting"):
        source_settings(source="web", colour="red")


def test_a_source_that_is_no_text() -> None:
    with pytest.raises(InvalidSettings, match="source is 5: it should be a text"):
        source_settings(source=5)


def test_json_gives_the_same_settings_back() -> None:
    settings = source_settings(source="web", naming="native", skip_events=["a", "b"])
    assert SourceSettings.from_json(settings.to_json()) == settings


@pytest.mark.parametrize("given", ["ios-prod", "iOS_prod", "ios.prod", "_ios_prod"])
def test_a_prefix_becomes_snake_case_with_a_note(given: str) -> None:
    settings = source_settings(source="web", table_prefix=given)
    assert settings.table_prefix == "ios_prod"
    assert settings.of_workspace("w").notes == (
        f"table_prefix {given!r} became 'ios_prod', as in table names",
    )
    assert source_settings(**settings.model_dump()).notes == ()
    assert SourceSettings.from_json(settings.to_json()).notes == ()
