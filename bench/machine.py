"""What the figures were taken on: enough to compare, nothing that names the machine."""

import os
import platform
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version

import psutil

PACKAGES = ("eventlake", "pyspark", "pyarrow", "duckdb", "dlt", "msgspec", "isal")


def facts() -> dict[str, object]:
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 10**9, 1),
        "versions": {
            "python": platform.python_version(),
            "java": _java(),
            **{name: _version(name) for name in PACKAGES},
        },
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _java() -> str | None:
    try:
        said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    found = re.search(r'version "([^"]+)"', said.stderr)
    return found[1] if found else None
