"""`eventlake check` of a lake on disk that is not there: it says so and makes nothing."""

from pathlib import Path

import pytest

from eventlake.cli.main import main
from eventlake.services.check import check
from tests import users


def test_a_folder_that_is_not_there_stays_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("typo", "deep/typo"):
        lake = tmp_path / name
        assert main(["check", "--lake", str(lake)]) == 0
        out = capsys.readouterr().out
        assert f"no such folder yet: {lake}; load and serve create it" in out
        assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made() -> None:
    with users.open_folder() as root:
        root.chmod(0o555)
        with users.unprivileged():
            found = check(root / "lake")
        root.chmod(0o777)
    failed = [one for one in found if not one.ok]
    assert [one.name for one in failed] == ["access"]
    assert "it cannot be created: Permission denied" in failed[0].detail


@pytest.mark.parametrize("lake", ["", "~nobody-at-all", "x" * 300])
def test_a_lake_that_cannot_be(lake: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--lake", lake]) == 1
    assert "FAIL  settings" in capsys.readouterr().out


def test_a_lake_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "lake").touch()
    failed = [one for one in check(tmp_path / "lake") if not one.ok]
    assert [one.name for one in failed] == ["access"]
    assert "it is a file, and a lake is a folder" in failed[0].detail
