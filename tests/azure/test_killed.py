"""A run in ADLS killed at every stage: the next one recovers, and its tables are complete."""

import signal
from pathlib import Path
from typing import Any

import pytest

from eventlake.lakes import open_parts
from eventlake.lakes.azure_settings import AzureSettings
from eventlake.services.read import open_lake
from tests.azure.azurite import Azure, entered
from tests.azure.metastores import Metastore
from tests.faults import kills
from tests.faults.kills import AtStep
from tests.lakes import load, small_sample

BEFORE_COMMIT = [("read", 0), ("write", 0), ("commit", 0)]
AFTER_COMMIT = [("publish", 0), ("publish", 3), ("register", 3), ("report", 0), ("clean", 0)]


def killed(azure: Azure, files: list[Path], lake: AzureSettings, at: AtStep) -> None:
    """Runs in a process that was forked from one that knows nothing of this Azure."""
    with entered(azure):
        kills.killed_at_step(files, lake, at)


def contents(lake: Any) -> dict[str, tuple[list[str], list[str]]]:
    """The rows and the registered partitions of each table; its run must have no problems."""
    opened, catalog = open_lake(lake), open_parts(lake).catalog
    assert opened.verify("web").problems == ()
    found = {}
    for table in opened.tables():
        rows = opened.query(f"select * from web.{table.name}").to_pylist()
        entry = catalog.table("web", table.name)
        assert entry is not None
        found[table.name] = (sorted(map(repr, rows)), sorted(map(repr, entry.partitions)))
    return found


@pytest.mark.parametrize(
    ("catalog", "steps"),
    [("files", BEFORE_COMMIT + AFTER_COMMIT), ("hive", AFTER_COMMIT[1:4])],
)
def test_killed_at_a_step(
    azure: Azure,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    catalog: str,
    steps: list[tuple[str, int]],
    subtests: pytest.Subtests,
) -> None:
    files = small_sample(tmp_path / "raw", events=60)
    for number, disk in ((3, "once"), (2, "twice"), (3, "twice")):
        load(files[:number], tmp_path / disk)
    once, twice = contents(tmp_path / "once"), contents(tmp_path / "twice")
    server: Metastore | None = request.getfixturevalue("hive") if catalog == "hive" else None
    for step in steps:
        with subtests.test(step=step):
            here = Azure(azure.url)
            here.make_container()
            lake = here.settings(metastore_url=server.url if server else "")
            if server:
                server.empty()
            code = kills.run(killed, azure, files[:2], lake, AtStep(0, *step))
            assert code == -signal.SIGKILL
            load(files, lake)
            wanted = twice if step in AFTER_COMMIT else once
            assert contents(lake) == wanted
            store = open_parts(lake).store
            assert store.names("segment-stage") == ([], [])
            schemas = store.names("staging/web/schemas")[1]
            assert schemas == sorted(f"{name}.json" for name in wanted)
