"""How pages show values."""

from datetime import UTC, datetime

import pytest

from eventlake.server.pages.formats import ago, local_time, number

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("moment", "zone", "shown"),
    [
        (NOW, "UTC", "01 Jan 00:00:00 UTC <small></small>"),
        (NOW, "Europe/Berlin", "01 Jan 01:00:00 <small>00:00 UTC</small>"),
        (NOW, "America/New_York", "31 Dec 2025 19:00:00 <small>01 Jan 00:00 UTC</small>"),
        ("2025-06-01T12:00:00.000001Z", "UTC", "01 Jun 2025 12:00:00 UTC <small></small>"),
        ("9999-12-31T23:59:59Z", "Europe/Berlin", "31 Dec 9999 23:59:59 UTC <small></small>"),
    ],
)
def test_times_are_those_of_the_reader(moment: datetime | str, zone: str, shown: str) -> None:
    assert shown in local_time(moment, zone, NOW)


def test_no_time_is_a_dash() -> None:
    assert local_time(None, "UTC", NOW) == "–"  # noqa: RUF001


def test_spans_of_a_clock_that_is_wrong() -> None:
    assert ago(datetime(9999, 12, 31, tzinfo=UTC), NOW) == "in over 10 years"
    assert ago(datetime(1970, 1, 1, tzinfo=UTC), NOW) == "over 10 years ago"
    assert ago(datetime(2025, 12, 31, tzinfo=UTC), NOW) == "1 d ago"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1234567, "1,234,567"),
        (1234.5, "1,234.50"),
        (0.001, "0.001"),
        (-0.5, "-0.5"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
    ],
)
def test_numbers_keep_their_size(value: float, shown: str) -> None:
    assert number(value) == shown
