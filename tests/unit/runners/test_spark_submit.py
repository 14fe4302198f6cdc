"""What Spark and a job are told on a cluster."""

import pytest

from eventlake.runners.package import Code
from eventlake.runners.spark_submit import JobProgram, parallelism

CODE = Code(
    "s3://b/entrypoint.py", "s3://b/eventlake.zip", "s3://b/environment.tar.gz", "3.12-linux-arm"
)


@pytest.mark.parametrize(
    ("told", "executors", "cores", "wanted"),
    [(0, 0, 0, 16), (0, 4, 2, 8), (40, 4, 2, 40), (0, 0, 2, 16)],
)
def test_parallelism_is_what_the_application_says(
    told: int, executors: int, cores: int, wanted: int
) -> None:
    assert parallelism(told, executors, cores) == wanted


def test_the_python_is_of_the_packed_version_unless_it_is_named() -> None:
    for named, used in (("", "python3.12"), ("/opt/python", "/opt/python")):
        program = JobProgram(CODE, named, "emr_python", ("path=x",))
        assert program.conf("x.")["spark.pyspark.python"] == used
        assert program.arguments("a/job") == [CODE.tag, "emr_python", "a/job", "path=x"]
