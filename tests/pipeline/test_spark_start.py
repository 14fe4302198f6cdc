"""A Spark that does not start, in a process of its own."""

import os
import subprocess
import sys

import pytest
from tests import processes

START = """if True:
    import sys
    from eventlake.errors import Unavailable
    from eventlake.runners import local
    local._CONF.update(dict(word.split("=", 1) for word in sys.argv[2:]))
    for _ in range(2):  # what did not start is not taken for a session that runs
        try:
            local.spark_session(sys.argv[1])
        except Unavailable as problem:
            print(problem)
"""


@pytest.mark.spark
@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (["nonsense"], "Master must either be yarn or start with spark, k8s, or local"),
        (["local[1]", "spark.driver.memory=1k"], "Too small maximum heap"),
        (["local[1]", "spark.python.daemon.module=no.such"], "No module named 'no'"),
        (["local[1]", "spark.task.cpus=9"], "number of cpus per task = 9"),
    ],
)
def test_a_spark_that_does_not_start_says_why(given: list[str], reason: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", START, *given],
        env={**os.environ, **processes.SHORT_LIVED},
        capture_output=True,
        text=True,
        check=True,
        timeout=processes.PATIENCE,
    )
    lines = ran.stdout.splitlines()
    assert len(lines) == 2, ran.stdout + ran.stderr
    for line in lines:
        assert line.startswith(f"Spark did not start on {given[0]}: ")
        assert reason in line.partition("; its log is ")[0]
