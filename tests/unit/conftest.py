"""Generated examples are the same on every run, and few; `HYPOTHESIS_PROFILE=deep` digs."""

import os

from hypothesis import HealthCheck, settings

SLOW = [HealthCheck.too_slow]
settings.register_profile(
    "unit",
    max_examples=15,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=SLOW,
)
settings.register_profile(
    "deep", max_examples=1500, deadline=None, database=None, suppress_health_check=SLOW
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "unit"))
