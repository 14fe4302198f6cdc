"""`eventlake check` of a lake on disk that is not there: it says so and makes nothing."""

from pathlib import Path

import pytest

from eventlake.cli.main import main
from eventlake.services.check import check


def test_a_folder_that_is_not_there_stays_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("typo", "deep/typo"):
        lake = tmp_path / name
        assert main(["check", "--lake", str(lake)]) == 1
        out = capsys.readouterr().out
        assert f"no such folder: {lake}; the first load or serve creates it" in out
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("lake", ["", "~nobody-at-all", "x" * 300])
def test_a_lake_that_cannot_be(lake: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--lake", lake]) == 1
    assert "FAIL  settings" in capsys.readouterr().out


def test_a_lake_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "lake").touch()
    failed = [one for one in check(tmp_path / "lake") if not one.ok]
    assert [one.name for one in failed] == ["access"]
    assert "it is a file, and a lake is a folder" in failed[0].detail
