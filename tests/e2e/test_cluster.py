"""A real standalone cluster: one master, two workers, the same tables."""

import re
from pathlib import Path

import pytest

from tests import lakes, processes
from tests.clusters import standalone
from tests.java import find_full_java
from tests.pipeline.test_order import archive, check_same, load_each

pytestmark = [pytest.mark.spark, pytest.mark.cluster]


def test_a_cluster_makes_the_same_tables(tmp_path: Path, subtests: pytest.Subtests) -> None:
    archives = archive(tmp_path / "raw")
    del archives["many"]  # the mixed ones are as many
    lakes.load(archives["one"], tmp_path / "wanted")
    wanted = lakes.assert_complete(tmp_path / "wanted")
    with standalone(tmp_path, workers=2) as master:
        process = processes.start(load_each, archives, tmp_path, master)
        with processes.ended(process):
            assert processes.finish(process) == 0
    for name in archives:
        with subtests.test(name=name):
            check_same(lakes.read_contents(tmp_path / name), wanted)


def test_a_master_that_is_none(tmp_path: Path) -> None:
    find_full_java()
    raw, lake = lakes.small_sample(tmp_path / "raw"), tmp_path / "lake"
    ran = processes.command("load", *raw, "--source", "web", "--lake", lake, "--master", "nonsense")
    assert (ran.code, ran.out) == (1, "")
    assert re.search(
        r"^error: Spark did not start on nonsense: .*Master must either be .*; its log is "
        r"/\S+\.log \(EventLake.Unavailable",
        ran.err.splitlines()[-1],
    )
    assert not (lake / "segment-stage").exists()
