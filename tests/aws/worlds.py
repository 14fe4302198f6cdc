"""Two small logs, and the lakes that they make when nothing is in the way."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import lakes


@dataclass(frozen=True)
class World:
    """The lakes are on disk: one in AWS must be the same."""

    files: list[Path]
    once: lakes.LakeContents
    """After one load of both."""
    twice: lakes.LakeContents
    """After a load of the first, and another of the second."""

    def check(self, lake: lakes.Place, *, twice: bool, but: tuple[str, ...] = ()) -> None:
        """A lake is complete, and as if nothing had been in its way."""
        parts = [part for part in lakes.WHOLE if part not in ("failures", *but)]
        lakes.assert_same(lakes.read_contents(lake), self.twice if twice else self.once, parts)


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    root = tmp_path_factory.mktemp("world")
    files = lakes.small_sample(root / "raw", events=80, hours=2)
    lakes.load(files, root / "once")
    lakes.load(files[:1], root / "twice")
    lakes.load(files, root / "twice")
    return World(files, lakes.assert_complete(root / "once"), lakes.assert_complete(root / "twice"))
