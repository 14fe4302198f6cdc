"""Prepares the large parts of the suite beside it, so that the tests that need them wait less.

A download that fails is left to its tests, which say why.
"""

import os
from contextlib import suppress

import pytest

from eventlake.runners.class_archive import make_archive
from tests.aws.trino import download_trino
from tests.azure.metastores import download_hive
from tests.databricks.runs import download_job_packages
from tests.delta_env import duckdb_with_delta, spark_with_delta
from tests.deploy.test_tools import download_checkov
from tests.downloads import spark_release
from tests.e2e.test_spark_releases import RELEASES

if __name__ == "__main__":
    os.nice(10)
    make_archive()  # every Spark of the suite starts faster with it
    for release in RELEASES:
        with suppress(pytest.fail.Exception, pytest.skip.Exception):
            spark_release(release)
    downloads = (
        download_trino,
        download_hive,
        spark_with_delta,
        duckdb_with_delta,
        download_job_packages,
        download_checkov,
    )
    for download in downloads:
        with suppress(pytest.fail.Exception, pytest.skip.Exception):
            download()
