"""How long the abuse lasts, and with which seed: short and the same in CI, by `make abuse` not."""

import os
import sys

import pytest

SECONDS, SEED = "EVENTLAKE_ABUSE_SECONDS", "EVENTLAKE_ABUSE_SEED"


@pytest.fixture
def abuse_seconds() -> float:
    """Seconds that a test goes on for after each kind of abuse was tried."""
    return float(os.environ.get(SECONDS, "0"))


@pytest.fixture
def abuse_seed() -> int:
    """The seed of everything random; pytest shows the line when the test fails."""
    seed = int(os.environ.get(SEED, "1"))
    sys.stdout.write(f"run again with {SEED}={seed}\n")
    return seed
