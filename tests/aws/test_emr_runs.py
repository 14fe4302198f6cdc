"""What goes to a cluster runs there: from the bucket alone, on a real Spark cluster."""

import os
import signal
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from eventlake.services.read import open_lake
from tests import lakes, processes
from tests.aws.emr import Steps, make_cluster, wait_for_step, write_settings
from tests.aws.moto import Aws
from tests.aws.proxy import Proxy
from tests.clusters import SPARK, standalone
from tests.downloads import spark_release
from tests.e2e.test_spark_releases import RELEASES
from tests.tiers import long

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

YARN_ENV = "spark.yarn.appMasterEnv."
SAME = ("tables", "catalog", "ids")


@dataclass(frozen=True)
class Machine:
    """Where a step's command runs: a Spark, a plain Python, and nothing of EventLake."""

    aws: Aws
    folder: Path
    spark: Path
    master: str = ""

    @property
    def environ(self) -> dict[str, str]:
        plain = Path(sys._base_executable).parent  # type: ignore[attr-defined]
        kept = {name: value for name, value in os.environ.items() if name == "JAVA_HOME"}
        return {
            **kept,
            **processes.SHORT_LIVED,
            **self.aws.env,
            "PATH": f"{plain}:/usr/bin:/bin",
            "HOME": str(self.folder),
            "PYTHONNOUSERSITE": "1",
            "SPARK_HOME": str(self.spark),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    def run(self, step: dict[str, Any]) -> "subprocess.CompletedProcess[str]":
        """The very command of a step, but that YARN's part in it is done here."""
        words = [self._fetched(word) for word in step["Config"]["Args"]]
        assert words[:3] == ["spark-submit", "--deploy-mode", "cluster"]
        confs = dict(word.split("=", 1) for word in words if word.startswith("spark."))
        for archive in words[words.index("--archives") + 1].split(","):
            self._unpack(*archive.split("#"))
        of_driver = {k.removeprefix(YARN_ENV): v for k, v in confs.items() if YARN_ENV in k}
        here = [str(self.spark / "bin/spark-submit"), "--master", self.master, *words[3:]]
        return subprocess.run(
            here,
            cwd=self.folder,
            env={**self.environ, **of_driver},
            capture_output=True,
            text=True,
            timeout=2 * processes.PATIENCE,
            check=False,
        )

    def _fetched(self, word: str) -> str:
        """A word with local files instead of the bucket's addresses, which EMR's Spark reads."""
        return ",".join(self._fetch(part) for part in word.split(","))

    def _fetch(self, part: str) -> str:
        address, _, alias = part.partition("#")
        if not address.startswith(f"s3://{self.aws.bucket}/segment-stage/code/"):
            return part
        file = self.folder / Path(address).name
        key = address.removeprefix(f"s3://{self.aws.bucket}/")
        self.aws.client("s3").download_file(self.aws.bucket, key, str(file))
        return f"{file}#{alias}" if alias else str(file)

    def _unpack(self, file: str, alias: str) -> None:
        target = self.folder / alias
        if file.endswith(".zip"):
            with zipfile.ZipFile(file) as packed:
                packed.extractall(target)
            return
        with tarfile.open(file) as packed:
            packed.extractall(target, filter="data")


@pytest.fixture(
    params=["", *(pytest.param(one, marks=long) for one in RELEASES)],
    ids=lambda release: release or "newest",
)
def machine(
    aws: Aws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Machine]:
    """A cluster of one worker with two cores, whose executors find AWS where the driver does."""
    spark = spark_release(request.param) / "pyspark" if request.param else SPARK
    folder = tmp_path / "cluster"
    (folder / "driver").mkdir(parents=True)
    found = Machine(aws, folder / "driver", spark)
    for name in ("VIRTUAL_ENV", "PYTHONPATH", "PYSPARK_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", found.environ["PATH"])
    with standalone(folder, home=spark, cores=2, memory="2g") as master:
        yield replace(found, master=master)


def settings_file(aws: Aws, folder: Path, **more: object) -> Path:
    given = {"s3_bucket": aws.bucket, "aws_region": aws.region, "catalog": "files"}
    return write_settings(folder / "aws.toml", **given, **more)


def test_what_was_uploaded_runs_and_lands_the_same_tables(
    aws: Aws, proxy: Proxy, machine: Machine, tmp_path: Path
) -> None:
    raw = lakes.small_sample(tmp_path / "raw")
    people = tmp_path / "people.txt"
    people.write_text("nobody-of-that-name\n")
    lakes.load(raw, tmp_path / "wanted", keep_raw=True)
    cluster, steps = make_cluster(aws), Steps()
    toml = settings_file(aws, tmp_path, emr_cluster_id=cluster)
    environ = proxy.here.environ
    arguments = ["load", tmp_path / "raw", "--source", lakes.SOURCE, "--lake", toml]
    with proxy.ruled(steps):
        command = processes.popen(*arguments, "--suppress", people, "--json", env=environ)
        try:
            step = wait_for_step(aws, cluster)
            ran = machine.run(step)
            assert ran.returncode == 0, ran.stderr + ran.stdout
            steps.states[step["Id"]] = "COMPLETED"
            out, err = command.communicate(timeout=processes.PATIENCE)
        finally:
            command.send_signal(signal.SIGKILL)
            command.wait()
    assert command.returncode == 0, err
    assert f"from {machine.folder}/code/eventlake/job.py" in ran.stdout
    (executor,) = (machine.folder.parent / "work").glob("app-*/0")
    assert (executor / "code/eventlake").is_dir()
    assert (executor / "environment/pyarrow").is_dir()
    check_landed(aws, cluster, processes.Ran(0, out, err).value, tmp_path / "wanted")


def check_landed(aws: Aws, cluster: str, told: Any, wanted: Path) -> None:
    """What the submitter says, what the bucket holds, and what a load on disk makes: all agree."""
    lake = aws.settings(catalog="files", emr_cluster_id=cluster)
    found, here = lakes.read_contents(lake), lakes.read_contents(wanted)
    lakes.assert_same(found, here, SAME)
    assert found.quarantine.total() == here.quarantine.total()
    assert open_lake(lake).verify(lakes.SOURCE).problems == ()
    assert found.strays == ["segment-stage/code"]
    assert (told["status"], told["counts"]["landed"]) == ("finished", found.rows)
    (report,) = found.reports
    assert {line["emr_cluster_id"] for line in report} == {cluster}
