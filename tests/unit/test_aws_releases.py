"""A cluster's release is checked before a run is submitted: its Spark, and its Python."""

from unittest.mock import patch

import pytest

from eventlake.errors import InvalidSettings
from eventlake.lakes import aws_releases
from eventlake.lakes.aws_releases import check_release


@pytest.fixture(autouse=True)
def python(request: pytest.FixtureRequest) -> object:
    """The submitting Python is 3.12, unless a test says another version."""
    return request.getfixturevalue("monkeypatch").setattr(
        aws_releases, "platform_tag", lambda: "3.12-linux-x86_64"
    )


@pytest.mark.parametrize("label", ["emr-6.15.0", "emr-7.0.0", "emr-5.36.2", ""])
def test_a_release_with_an_older_spark_or_python_is_refused(label: str) -> None:
    with pytest.raises(InvalidSettings, match=f"the release is {label!r}.*emr-7.1.0 or later"):
        check_release(label, "python3.12", "the release")


def test_a_python_that_the_release_does_not_have_is_refused() -> None:
    for label, pythons in (("emr-7.13.0", "3.11"), ("emr-spark-8.1.0", "3.11 and 3.13")):
        with pytest.raises(InvalidSettings, match=f"{label} has Python {pythons}, and this is"):
            check_release(label, "", "the release")


def test_a_python_of_the_release_or_of_the_user_is_accepted() -> None:
    check_release("emr-spark-8.0.0", "", "the release")
    check_release("emr-7.13.0", "/opt/python/bin/python3.12", "the release")
    check_release("emr-spark-9.0.0", "", "the release")  # not known here: the job checks it
    with patch.object(aws_releases, "platform_tag", lambda: "3.11-linux-x86_64"):
        check_release("emr-7.1.0", "", "the release")
