"""How long the abuse lasts, and with which seed."""

import os
import sys
import time

import pytest

SECONDS, SEED = "EVENTLAKE_ABUSE_SECONDS", "EVENTLAKE_ABUSE_SEED"


@pytest.fixture
def abuse_seconds() -> float:
    """Seconds that a test may go on for; a few in CI, more with the environment variable."""
    return float(os.environ.get(SECONDS, "20"))


@pytest.fixture
def abuse_seed() -> int:
    """The seed of everything random; pytest shows the line when the test fails."""
    seed = int(os.environ.get(SEED, time.time_ns() % 1_000_000))
    sys.stdout.write(f"run again with {SEED}={seed}\n")
    return seed
