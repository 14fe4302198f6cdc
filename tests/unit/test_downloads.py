"""Downloads of tests: made once, skipped where they cannot be made, and never so in CI."""

from pathlib import Path
from subprocess import CalledProcessError

import pytest

from tests.downloads import cached, run


def test_a_download_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = cached("A file", "one", lambda folder: (folder / "file").write_text("x"))
    assert (made / "file").read_text() == "x"
    assert cached("A file", "one", lambda folder: pytest.fail("made again")) == made
    assert [path.name for path in made.parent.iterdir() if path.is_dir()] == ["one"]


@pytest.mark.parametrize(
    ("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)]
)
def test_a_download_that_fails_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ci: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="no network"):
        cached("A server", "one", lambda folder: run("sh", "-c", "echo no network >&2; exit 1"))
    assert not [path for path in (tmp_path / "eventlake-tests").iterdir() if path.is_dir()]
    with pytest.raises(CalledProcessError):
        run("false")
