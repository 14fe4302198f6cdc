"""Durations as users write them."""

from datetime import timedelta

import pytest

from eventlake.model.durations import parse_duration


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("0s", timedelta()),
        ("90m", timedelta(minutes=90)),
        (" 2 h ", timedelta(hours=2)),
        ("36500d", timedelta(days=36_500)),
    ],
)
def test_a_duration(text: str, duration: timedelta) -> None:
    assert parse_duration(text) == duration


@pytest.mark.parametrize("text", ["", "2", "h", "2w", "-1h", "1.5h", "36501d", "²h", "1h30m"])
def test_what_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="such as 90m"):
        parse_duration(text)
