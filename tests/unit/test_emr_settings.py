"""The settings of runs on EMR, checked when they are entered."""

import pytest

from eventlake.errors import InvalidSettings
from eventlake.lakes import lake_settings

LAKE = {"s3_bucket": "the-lake", "aws_region": "eu-west-1"}
ROLE = "arn:aws:iam::123456789012:role/runs"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("emr_cluster_id", "my cluster"),
        ("emr_python", "python3; rm"),
        ("emr_serverless_role_arn", "runs"),
        ("emr_service_role", "a role"),
        ("emr_instance_profile", "a profile"),
        ("emr_subnet_id", "net-1"),
        ("emr_release_label", "emr-6.15.0"),
        ("emr_release_label", "emr-7.0.0"),
        ("emr_release_label", "emr-8.0.0"),
        ("emr_instance_type", "large"),
        ("emr_max_instances", 0),
    ],
)
def test_a_wrong_setting_is_named_with_its_value(name: str, value: object) -> None:
    with pytest.raises(InvalidSettings, match=f"{name} is {value!r}"):
        lake_settings({**LAKE, name: value})


def test_runs_are_in_one_place() -> None:
    both = {
        "emr_cluster_id": "j-1",
        "emr_serverless_application_id": "00abc",
        "emr_serverless_role_arn": ROLE,
    }
    with pytest.raises(InvalidSettings, match="set one of the two"):
        lake_settings({**LAKE, **both})


@pytest.mark.parametrize(
    "half", [{"emr_serverless_application_id": "00abc"}, {"emr_serverless_role_arn": ROLE}]
)
def test_an_application_and_its_role_take_each_other(half: dict[str, str]) -> None:
    with pytest.raises(InvalidSettings, match="set both or neither"):
        lake_settings({**LAKE, **half})


@pytest.mark.parametrize(
    "label", ["emr-7.1.0", "emr-7.13.0", "emr-spark-8.0.0", "emr-spark-10.2.1"]
)
def test_releases_with_spark_3_5_or_4_are_accepted(label: str) -> None:
    assert lake_settings({**LAKE, "emr_release_label": label}).emr_release_label == label
