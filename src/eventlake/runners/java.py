"""Checks that Java is installed, for Spark. `make` runs this as a module."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from eventlake.errors import InvalidSettings

MIN_JAVA = 17
INSTALL_JAVA = f"install Java {MIN_JAVA} or newer (a JRE is enough) or point JAVA_HOME at one"


def check_java() -> None:
    """Raise InvalidSettings, with what to install, if Java is missing or too old."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not java or not Path(java).exists():
        raise InvalidSettings(f"Spark needs Java, and none was found: {INSTALL_JAVA}")
    output = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(\d+)(?:\.(\d+))?', output.stderr + output.stdout)
    if version is None:
        raise InvalidSettings(f"{java} does not print its version: {INSTALL_JAVA}")
    major = int(version[2] or 0) if version[1] == "1" else int(version[1])
    if major < MIN_JAVA:
        raise InvalidSettings(f"Spark needs Java {MIN_JAVA}, and this is {major}: {INSTALL_JAVA}")


if __name__ == "__main__":
    try:
        check_java()
    except InvalidSettings as problem:
        sys.exit(str(problem))
