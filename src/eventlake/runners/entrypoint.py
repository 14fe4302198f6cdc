"""What a cluster starts: EventLake's job, once it is clear that the packed code can run here.

This file goes to the cluster as it is, and may meet a Python that is older than EventLake's own.
"""

import platform
import sys
from importlib import import_module


def tag() -> str:
    """The Python and the machine that compiled packages are made for."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return f"{version}-{sys.platform}-{platform.machine()}"


def mismatch(packed: str, here: str) -> str:
    """What is wrong with code that was packed for one place and runs in another, if it is."""
    if packed == here:
        return ""
    wanted, found = (name.replace("-", " on ", 1) for name in (packed, here))
    return (
        f"error: EventLake was packed for Python {wanted}, and this is Python {found}: let the "
        "setting emr_python name a Python of that version, or pack on a machine of this kind"
    )


if __name__ == "__main__":
    problem = mismatch(sys.argv[1], tag())
    if problem:
        sys.exit(problem)
    # Only by now is it sure that the packed code can be imported.
    sys.exit(import_module("eventlake.job").main(sys.argv[2:]))
