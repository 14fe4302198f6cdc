"""What Spark and a job are told on a cluster."""

import pytest

from eventlake.model.lake import AwsSettings, lake_settings
from eventlake.runners.package import Code
from eventlake.runners.spark_submit import job_arguments, parallelism, spark_conf

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
    assert spark_conf(CODE, "", "x.")["spark.pyspark.python"] == "python3.12"
    assert spark_conf(CODE, "/opt/python", "x.")["spark.pyspark.python"] == "/opt/python"


def test_settings_come_back_from_the_words_that_a_job_is_told() -> None:
    settings = AwsSettings(
        s3_bucket="the-lake",
        aws_region="eu-west-1",
        partition_projection=True,
        s3_path_style=False,
        emr_cluster_id="j-1",
        emr_max_instances=3,
        profile="mine",
        credentials_file="/home/me/keys",
    )
    tag, job, *words = job_arguments(CODE, settings, "a/job.json")
    assert (tag, job) == (CODE.tag, "a/job.json")
    assert not [word for word in words if set(word) & set("\"'{}$ ")]
    own = {"profile": "", "credentials_file": ""}
    given = dict(word.split("=", 1) for word in words)
    assert lake_settings(given) == settings.model_copy(update=own)
