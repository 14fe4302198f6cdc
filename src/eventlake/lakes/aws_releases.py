"""Which EMR releases can run jobs, by their Spark and their Pythons."""

import re
from collections.abc import Mapping

from eventlake.errors import InvalidSettings
from eventlake.lakes.aws_settings import RELEASE
from eventlake.runners.entrypoint import platform_tag

PYTHONS: Mapping[str, tuple[str, ...]] = {
    "emr-7.": ("3.11",),
    "emr-spark-8.0.": ("3.11", "3.12", "3.13"),
    "emr-spark-8.1.": ("3.11", "3.13"),
}
"""The Pythons that EventLake can run on, by the beginning of the release label."""


def check_release(label: str, python: str, subject: str) -> None:
    """Raise InvalidSettings if a release cannot run jobs packed by this Python.

    Messages begin with `subject`. Releases that are not in PYTHONS are left to entrypoint.py.
    """
    if not re.match(RELEASE, label):
        raise InvalidSettings(
            f"{subject} is {label!r}, and EventLake needs emr-7.1.0 or later: Spark 3.5 or 4, and "
            "Python 3.11"
        )
    version = platform_tag().partition("-")[0]
    known = next((found for start, found in PYTHONS.items() if label.startswith(start)), ())
    if known and version not in known and not python:
        raise InvalidSettings(
            f"{subject} {label} has Python {' and '.join(known)}, and this is Python {version}: "
            f"run EventLake with Python {known[0]}, or install Python {version} on the cluster "
            "and set emr_python"
        )
