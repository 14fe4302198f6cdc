"""Retries of changes to a table that others change at the same time."""

import random
from collections.abc import Callable
from typing import TypeVar

from eventlake.clock import Clock
from eventlake.errors import Unavailable

RETRIES = 8

Result = TypeVar("Result")


class ChangedError(Unavailable):
    """The table was changed concurrently: read it again and retry."""


def retry_on_change(clock: Clock, work: Callable[[], Result]) -> Result:
    """Call `work`, and again with increasing pauses while it raises `ChangedError`."""
    for number in range(RETRIES):
        try:
            return work()
        except ChangedError:
            clock.sleep(random.uniform(0, 0.05 * 2**number))  # noqa: S311 - not a secret
    return work()
