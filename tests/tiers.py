"""What `make test` leaves to `make long`: most points of the sweeps, and tests marked `long`."""

import os
from collections.abc import Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")

IS_LONG = bool(os.environ.get("EVENTLAKE_LONG"))

sweep = pytest.mark.sweep
"""A test that goes through many points, of which `make test` takes some."""
long = pytest.mark.long
"""A test that only `make long` runs."""


def choose(points: Sequence[T], number: int) -> list[T]:
    """All points in `make long`; otherwise this number of them, the first and the last included."""
    if IS_LONG or len(points) <= number:
        return list(points)
    return [points[place * (len(points) - 1) // (number - 1)] for place in range(number)]
