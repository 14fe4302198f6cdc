"""The command killed repeatedly at random times on one lake."""

from pathlib import Path

import pytest

from tests.faults import kills

pytestmark = pytest.mark.spark


def test_whatever_the_moment_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    kills.check_random_kills(tmp_path, tmp_path / "lake", named=tmp_path / "lake", times=4)
