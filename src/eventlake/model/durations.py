"""Durations as users write them."""

import re
from datetime import timedelta

_DURATION = re.compile(r"(\d{1,9})\s*([smhd])", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
MAX_DURATION = timedelta(days=36_500)


def parse_duration(text: str) -> timedelta:
    """Parse a duration such as `90m`; raises `ValueError` with what is allowed."""
    match = _DURATION.fullmatch(text.strip())
    if match:
        duration = timedelta(**{_UNITS[match[2]]: int(match[1])})
        if duration <= MAX_DURATION:
            return duration
    raise ValueError(
        "it should be a number and a unit (s, m, h or d), such as 90m or 2h, at most 36500d"
    )
