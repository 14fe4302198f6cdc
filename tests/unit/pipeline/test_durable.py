"""Files are fsynced before a commit names them, so that they survive a power failure."""

from pathlib import Path, PurePath

import pytest

from eventlake.ledger import Ledger
from eventlake.model.commit import Commit, Counts
from eventlake.model.layout import DEFAULT_LAYOUT
from eventlake.model.settings import source_settings
from eventlake.stores import Disk


class Recording(Disk):
    """A store that records which objects were fsynced, and whether they were complete."""

    settled: dict[str, int]

    def fsync(self, path: str) -> None:
        self.__dict__.setdefault("settled", {})[path] = (Path(self.root) / path).stat().st_size
        super().fsync(path)


@pytest.fixture
def store(tmp_path: Path) -> Recording:
    return Recording(str(tmp_path))


def test_a_commit_is_settled(store: Recording) -> None:
    commit = Commit(run_id="1", settings=source_settings(source="web"), inputs=(), counts=Counts())
    assert Ledger(store, DEFAULT_LAYOUT, "web").append(1, commit)
    path = "segment-data/ledger/web/000000000001.json"
    assert store.settled[path] == len(commit.to_json())
    # A file's name is in its folder, and the folder's name in its parent.
    assert {str(folder) for folder in PurePath(path).parents} <= store.settled.keys()
