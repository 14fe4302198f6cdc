"""Numbers, times and states as people read them; used by all templates."""

from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from markupsafe import Markup

from eventlake.control.runs import RunState


class StateLook(NamedTuple):
    """The word, shape and colour of a state; each alone tells states apart."""

    word: str
    shape: str
    tone: str


_STATES = {
    RunState.FINISHED: StateLook("Success", "✓", "good"),
    RunState.PARTIAL: StateLook("Partial", "◐", "warn"),
    RunState.FAILED: StateLook("Failed", "✕", "bad"),
    RunState.RUNNING: StateLook("Running", "▶", "busy"),
    RunState.QUEUED: StateLook("Queued", "…", "busy"),
    RunState.WAITING: StateLook("Waiting", "…", "busy"),
    RunState.CANCELLING: StateLook("Cancelling", "◌", "warn"),
    RunState.CANCELLED: StateLook("Cancelled", "–", "idle"),
    RunState.SKIPPED: StateLook("Skipped", "»", "idle"),
}
MAX_SPAN_SECONDS = 10 * 365 * 86_400
"""Longer spans come from a wrong clock, and are shown as "over 10 years"."""
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def state_look(state: str) -> StateLook:
    """How a run's state is shown; unknown states as their word."""
    try:
        return _STATES[RunState(state)]
    except ValueError:
        return StateLook(state.replace("_", " ").capitalize(), "•", "idle")


def number(value: int | float | None) -> str:
    """A number with thousands separated; a dash if there is none.

    It has two decimals, or three digits below 1. NaN and infinity are words.
    """
    if value is None:
        return "–"
    if not isfinite(value):
        return str(value)
    if value == int(value):
        return f"{value:,.0f}"
    return f"{value:,.2f}" if abs(value) >= 1 else f"{value:.3g}"


def size(value: int | float | None) -> str:
    """Bytes in the unit that fits."""
    if value is None:
        return "–"
    amount = float(value)
    for unit in _UNITS:
        if abs(amount) < 1000 or unit == _UNITS[-1]:
            return f"{amount:,.0f} {unit}" if unit == "B" else f"{amount:,.1f} {unit}"
        amount /= 1000
    raise AssertionError


def share(value: float | None) -> str:
    """A share from 0 to 1 as percent, never rounded to all or nothing."""
    if value is None:
        return "–"
    percent = 100 * value
    if 0 < percent < 0.1:
        return "< 0.1 %"
    if 99.9 < percent < 100:
        return "> 99.9 %"
    return f"{percent:.1f} %" if percent % 1 else f"{percent:.0f} %"


def duration(value: timedelta | float | None) -> str:
    """A time span in its two largest units."""
    if value is None:
        return "–"
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    parts = (
        (whole // 86400, "d"),
        (whole // 3600 % 24, "h"),
        (whole // 60 % 60, "min"),
        (whole % 60, "s"),
    )
    first = next(at for at, (count, _) in enumerate(parts) if count)
    return " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2] if count)


def ago(moment: datetime | None, now: datetime) -> str:
    """How long ago a moment was, or how far ahead it is."""
    if moment is None:
        return "never"
    seconds = (now - moment).total_seconds()
    if abs(seconds) < 1:
        return "now"
    if abs(seconds) > MAX_SPAN_SECONDS:
        return "over 10 years ago" if seconds > 0 else "in over 10 years"
    span = duration(float(max(10, round(abs(seconds)))) if abs(seconds) >= 10 else abs(seconds))
    short = span.replace(".0", "")
    return f"{short} ago" if seconds > 0 else f"in {short}"


def local_time(moment: datetime | str | None, zone: str, now: datetime) -> Markup:
    """A moment in the reader's zone, with UTC beside it; a dash if there is none.

    Reports of lakes have moments as text. The year is shown if it is not the present one.
    """
    if not moment:
        return Markup("–")
    moment = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    utc = moment.astimezone(UTC)
    try:
        there = utc.astimezone(ZoneInfo(zone))
    except OverflowError:  # the last hours of the year 9999
        there, zone = utc, "UTC"
    other_day = "" if utc.date() == there.date() else f"{utc:%d %b} "
    beside = "" if zone == "UTC" else f"{other_day}{utc:%H:%M} UTC"
    day = f"{there:%d %b}" + (f" {there.year}" if there.year != now.year else "")
    local = f"{day} {there:%H:%M:%S}" + (" UTC" if zone == "UTC" else "")
    return Markup('<time datetime="{}">{} <small>{}</small></time>').format(
        f"{utc:%Y-%m-%dT%H:%M:%SZ}", local, beside
    )


def pretty(value: Any) -> str:
    """A setting's value as it would be typed."""
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "–"
    return str(value)


def micros(value: int) -> str:
    """A moment in microseconds since 1970."""
    return f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value):%Y-%m-%d %H:%M} UTC"
