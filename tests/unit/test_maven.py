"""Files of Maven's repository that are already there."""

from pathlib import Path

import pytest

from eventlake.catalogs.maven import Artifact, find_files
from eventlake.errors import InvalidSettings, Unavailable

DRIVER = Artifact("org.example", "driver", "1.0")
SCRIPTS = Artifact("org.example", "scripts", "2.0", "bin", "tar.gz")


def test_files_of_a_folder(tmp_path: Path) -> None:
    for name in ("driver-1.0.jar", "scripts-2.0-bin.tar.gz"):
        (tmp_path / name).touch()
    found = find_files(str(tmp_path), [DRIVER, SCRIPTS, DRIVER], "no java")
    assert [path.name for path in found] == [DRIVER.file, SCRIPTS.file, DRIVER.file]


def test_a_folder_without_a_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match=r"it lacks scripts-2\.0-bin\.tar\.gz \(org\.exampl"):
        find_files(str(tmp_path), [SCRIPTS], "no java")


def test_a_download_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(Unavailable, match=r"could not download driver-1\.0\.jar .* metastore_jars"):
        find_files("", [DRIVER], str(tmp_path / "no java"))
    assert [one for one in tmp_path.rglob("*") if one.is_file()] == []
