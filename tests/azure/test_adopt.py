"""Lakes that Segment's Azure product left are adopted in place, and two syncs go on in them."""

import pytest

from eventlake.services.adopt import adopt, plan_adoption
from eventlake.services.forget import forget
from eventlake.services.read import open_lake
from tests.aws.test_adopt_sources import LANDED, SOURCE, check_adoption, make_source
from tests.azure.azurite import Azure
from tests.azure.metastores import Metastore
from tests.azure.sources import AzureSource, Place


@pytest.fixture
def place(azure: Azure, hive: Metastore) -> Place:
    return Place(azure, hive)


def test_tables_of_databricks_go_on_and_none_is_new(place: Place) -> None:
    older = {"naming": "native", "id_column": "message_id", "date_partition": "day"}
    source = make_source(place, AzureSource, by_spark=True, scheme="abfs", **older)
    check_adoption(source)
    entry = place.metastore.calls.call("get_table", source.database, "track_order_completed")
    name = "spark.sql.sources.schema"
    count = int(entry.parameters[f"{name}.numParts"])
    schema = "".join(entry.parameters[f"{name}.part.{number}"] for number in range(count))
    assert '"name": "properties_coupon", "type": "long"' in schema
    assert schema.index("coupon") < schema.index('"day"')


def test_a_plan_writes_nothing_and_a_user_can_be_forgotten(place: Place) -> None:
    source = AzureSource(place)
    events = [one for one in LANDED if one["type"] == "identify"]
    source.archive(events, "old")
    source.land(events)
    before, given = source.object_keys(), {"source_id": source.source_id}
    plan = plan_adoption(SOURCE, lake=source.settings, changes=given)
    assert source.object_keys() == before
    assert [one.folder for one in plan.tables] == [source.location("identify")]
    assert adopt(SOURCE, lake=source.settings, changes=given).tables == plan.tables
    result = forget("u907", lake=source.settings)
    assert result.status == "finished"
    assert {one.kind: one.removed for one in result.files} == {"table": 1, "raw log": 1}
    assert source.ids("identify").total() == len(events) - 1
    assert open_lake(source.settings).verify(SOURCE).problems == ()
