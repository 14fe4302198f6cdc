"""The script that a cluster starts: checks that the packed code fits, then runs EventLake's job.

This file is uploaded alone and must also run on a Python older than EventLake supports.
"""

import platform
import sys
from importlib import import_module


def platform_tag() -> str:
    """The Python version, system and machine that compiled packages depend on."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return f"{version}-{sys.platform}-{platform.machine()}"


def explain_mismatch(packed: str, here: str, setting: str) -> str:
    """An error if code packed for one platform tag runs on another, else empty.

    `setting` is the lake's setting for the cluster's Python.
    """
    if packed == here:
        return ""
    expected, actual = (name.replace("-", " on ", 1) for name in (packed, here))
    return (
        f"error: EventLake was packed for Python {expected}, and this is Python {actual}: set "
        f"{setting} to a Python of that version, or submit from a machine like this one"
    )


if __name__ == "__main__":
    problem = explain_mismatch(sys.argv[1], platform_tag(), sys.argv[2])
    if problem:
        sys.exit(problem)
    # Imported last: only now it is known that the packed code can be imported.
    sys.exit(import_module("eventlake.job").main(sys.argv[3:]))
