"""Other releases of Spark that clusters have: the same tables, the same answers.

    python -m tests.e2e.test_spark_releases <raw folder> <lake> <master of a cluster>

loads with the PySpark that is first on PYTHONPATH, in a process of its own. All other packages are
those that EventLake is tested with: on a cluster too, only Spark is the cluster's own.
"""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pyspark
import pytest
from packaging.requirements import Requirement

from eventlake.errors import InvalidSettings
from eventlake.services.read import open_lake
from tests import lakes, processes
from tests.clusters import standalone
from tests.downloads import spark_release
from tests.pipeline.test_order import check_same
from tests.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

RELEASES = ("3.5.9", "4.0.5")
"""The newest of the oldest line that is supported, and of the first 4."""
LOCAL = "local[2]"
SQL = "select count(*) n, count(distinct id) ids, max(received_at) last from web.page"
MISTAKE = "select cast('a' as int)"


def test_the_package_accepts_these_releases() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    (spark,) = (r for r in map(Requirement, project["dependencies"]) if r.name == "pyspark")
    assert all(release in spark.specifier for release in RELEASES)


@pytest.mark.parametrize(
    "release", [pytest.param(one, marks=() if one == RELEASES[0] else long) for one in RELEASES]
)
def test_another_release_loads_and_queries(release: str, tmp_path: Path) -> None:
    packages = spark_release(release)
    raw = lakes.small_sample(tmp_path / "raw")
    lakes.load(raw[:1], tmp_path / "wanted")
    lakes.load(raw, tmp_path / "wanted")
    with standalone(tmp_path, home=packages / "pyspark") as master:
        path = f"{packages}:{os.environ.get('PYTHONPATH', '')}"
        places = (str(tmp_path / "raw"), str(tmp_path / "lake"), master)
        done = subprocess.run(
            [sys.executable, "-m", "tests.e2e.test_spark_releases", *places],
            env={**os.environ, **processes.SHORT_LIVED, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=2 * processes.PATIENCE,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [release]
    assert done.stderr == ""
    wanted = lakes.assert_complete(tmp_path / "wanted")
    check_same(lakes.read_contents(tmp_path / "lake"), wanted)


def main(raw: Path, lake: Path, master: str) -> None:
    """Load on this machine and on a cluster; compare answers with DuckDB's; print the release."""
    files = sorted(raw.iterdir())
    lakes.load(files[:1], lake, runner=lakes.SparkRunner, master=LOCAL)
    opened = open_lake(lake)
    answer = opened.query(SQL, "spark", LOCAL).to_pylist()
    assert answer == opened.query(SQL).to_pylist(), answer
    with pytest.raises(InvalidSettings, match="cannot be cast"):
        opened.query(MISTAKE, "spark", LOCAL)
    lakes.load(files, lake, runner=lakes.SparkRunner, master=master)
    sys.stdout.write(f"{pyspark.__version__}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
