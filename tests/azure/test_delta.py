"""Delta tables in ADLS: loaded, killed, replayed and forgotten, read by deltalake on its own."""

import signal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from eventlake.services.compact import compact
from eventlake.services.forget import forget
from eventlake.services.read import open_lake
from eventlake.services.replay import ReplayRequest, replay
from tests.azure.azurite import ACCOUNT, KEY, Azure
from tests.azure.metastores import HADOOP_AZURE, Metastore, abfs_settings, downloaded
from tests.azure.test_killed import within
from tests.delta.engine import normalize, run_on_spark
from tests.delta_env import spark_with_delta
from tests.faults import kills
from tests.faults.kills import AtStep
from tests.lakes import InlineRunner, load, small_sample


def delta_rows(azure: Azure, names: list[str]) -> dict[str, int]:
    options = {
        "account_name": ACCOUNT,
        "account_key": KEY,
        "endpoint": f"{azure.url}/{ACCOUNT}",
        "allow_http": "true",
    }
    root = f"{azure.root}/staging/web"
    found = {}
    for name in names:
        table = DeltaTable(f"{root}/segment_type={name}", storage_options=options)
        rows = QueryBuilder().register("t", table).execute("select id from t").read_all()
        found[name] = pa.table(rows).num_rows
    return found


def test_a_lake_with_delta_tables(azure: Azure, tmp_path: Path) -> None:
    lake, files = azure.settings(format="delta"), small_sample(tmp_path / "raw", events=60)
    work = (kills.killed_at_step, files[:1], lake, AtStep(0, "publish", 3))
    assert kills.run(within, azure, *work) == -signal.SIGKILL
    assert load(files[:2], lake).status == "finished"
    assert load(files, lake).status == "finished"
    opened = open_lake(lake)
    assert opened.verify("web").problems == ()
    rows = {table.name: table.rows for table in opened.tables()}
    assert delta_rows(azure, sorted(rows)) == rows
    request = ReplayRequest("web", all_time=True)
    assert replay(request, lake=lake, where=InlineRunner()).status == "finished"
    compact("web", lake=lake, where=InlineRunner(), older_than="0s")
    assert delta_rows(azure, sorted(rows)) == rows
    users = opened.query("select user_id from web.identify where user_id is not null").to_pylist()
    assert forget(users[0]["user_id"], lake=lake).status == "finished"
    assert opened.verify("web").problems == ()
    after = {table.name: table.rows for table in opened.tables()}
    assert delta_rows(azure, sorted(after)) == after
    assert sum(after.values()) < sum(rows.values())


@pytest.mark.spark
def test_spark_reads_the_tables_by_their_names_in_a_metastore(
    azure: Azure, hive: Metastore, tmp_path: Path
) -> None:
    """As Delta tables: their partitions are not registered."""
    lake = azure.settings(format="delta", metastore_url=hive.url)
    for file in small_sample(tmp_path / "raw", events=40):
        assert load([file], lake).status == "finished"
    opened = open_lake(lake)
    assert opened.verify("web").problems == ()
    hadoop = {**abfs_settings(azure.url), "hive.metastore.uris": hive.url}
    jars = [*spark_with_delta().jars, *downloaded(*HADOOP_AZURE)]
    settings = {
        "spark.jars": ",".join(map(str, jars)),
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
        **{f"spark.hadoop.{name}": value for name, value in hadoop.items()},
    }
    [rows] = run_on_spark(["select * from web.page"], settings)
    assert isinstance(rows, list), rows
    assert normalize(rows) == normalize(opened.query("select * from web.page").to_pylist())
