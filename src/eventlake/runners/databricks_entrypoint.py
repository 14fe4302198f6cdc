"""The script that a Databricks cluster starts: checks what is installed, then runs the job.

This file is uploaded alone and must also run on a Python older than EventLake supports. It raises
instead of exiting: the shell in which a cluster runs scripts treats every exit as a failure.
"""

import sys
from importlib import import_module, metadata


def explain_mismatch(expected: str, installed: str) -> str:
    """An error if the cluster has another EventLake than was uploaded, else empty."""
    if expected == installed:
        return ""
    return (
        f"the cluster has EventLake {installed} instead of {expected}: uninstall the library and "
        "restart the cluster, or run on a job cluster (databricks_job_cluster)"
    )


def main(arguments: "list[str]") -> None:
    """Run a job; the arguments are EventLake's version, then those of `eventlake.job`."""
    expected, *rest = arguments
    if sys.version_info < (3, 11):  # noqa: UP036 - the cluster's own
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        raise RuntimeError(
            f"this cluster has Python {version}, and EventLake needs 3.11: use Databricks Runtime "
            "15.4 LTS or newer"
        )
    if problem := explain_mismatch(expected, metadata.version("eventlake")):
        raise RuntimeError(problem)
    provide_spark = import_module("eventlake.runners.spark_submit").on_running_cluster
    if import_module("eventlake.job").main(rest, provide_spark):
        raise RuntimeError("the job failed: its error is above, and in the report of the run")


if __name__ == "__main__":
    main(sys.argv[1:])
