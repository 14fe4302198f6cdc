"""Schedules, and the slots at which each wants a sync. Nothing here reads a clock or a database.

A slot is a moment in UTC. Which slots a schedule has does not depend on when it is asked.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from hashlib import sha256
from typing import Annotated, Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from pydantic import Field, field_validator, model_validator

from eventlake.model.values import FrozenModel

_MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_QUIET = r"^$|^([01]\d|2[0-3]):[0-5]\d-([01]\d|2[0-3]):[0-5]\d$"
NO_DAY = "no month has this day"
_CRON_ERRORS = {
    "Bad minute": "the minute, the first field, should be 0 to 59",
    "Bad hour": "the hour, the second field, should be 0 to 23",
    "Bad day-of-month": "the day, the third field, should be 1 to 31, and in the month",
    "Bad month": "the month, the fourth field, should be 1 to 12",
    "Bad day-of-week": "the day of the week, the fifth field, should be 0 to 7",
}
DAY = timedelta(days=1)
NEAR = timedelta(hours=3)
"""Longer than any clock change."""


class Schedule(FrozenModel):
    """When a source is synced; without `every_seconds` and `cron`, only on request."""

    every_seconds: Annotated[
        int, Field(ge=0, le=31 * 86400, description="Seconds between syncs, from 60")
    ] = 0
    cron: Annotated[
        str, Field(description="Five fields, such as `0 6 * * *`, or a word such as `@daily`")
    ] = ""
    zone: Annotated[
        str, Field(description="The time zone of `cron` and `quiet`, such as `Europe/Berlin`")
    ] = "UTC"
    quiet: Annotated[
        str,
        Field(
            description="A time of day without syncs, such as `22:00-06:00`",
            json_schema_extra={"pattern": _QUIET},
        ),
    ] = ""
    spread_seconds: Annotated[
        int,
        Field(ge=0, le=3600, description="Delay each source by its own time of less than this"),
    ] = 0
    max_seconds: Annotated[
        int, Field(ge=0, description="Cancel a run that takes longer; 0 for no limit")
    ] = 0

    @field_validator("every_seconds")
    @classmethod
    def _check_every(cls, value: int) -> int:
        if 0 < value < 60:
            raise ValueError("at least 60 (one minute)")
        return value

    @field_validator("zone")
    @classmethod
    def _check_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError("an IANA time zone such as Europe/Berlin") from None
        return value

    @field_validator("cron")
    @classmethod
    def _check_cron(cls, value: str) -> str:
        expression = _MACROS.get(value.lower(), " ".join(value.split()))
        if expression and len(expression.split()) != 5:
            raise ValueError("five fields: minute, hour, day of month, month, day of week")
        try:
            # The first slot shows that there is one: 30 February is only found out by looking.
            next(CronSim(expression or "* * * * *", datetime(2000, 1, 1, tzinfo=UTC)))
        except (CronSimError, StopIteration) as problem:
            raise ValueError(_CRON_ERRORS.get(str(problem), NO_DAY)) from None
        return expression

    @field_validator("quiet", mode="before")
    @classmethod
    def _check_quiet(cls, value: Any) -> Any:
        """Refuse other texts in plain words; the pattern itself is for forms."""
        if not isinstance(value, str):
            return value
        if not re.fullmatch(_QUIET, value):
            raise ValueError("two times from 00:00 to 23:59, such as 22:00-06:00")
        start, _, end = value.partition("-")
        if value and start == end:
            raise ValueError("it must end at another time than it begins")
        return value

    @model_validator(mode="after")
    def _check_kind(self) -> "Schedule":
        if self.every_seconds and self.cron:
            raise ValueError("every_seconds and cron: set one of the two, or neither for manual")
        return self


DEFAULT_SCHEDULE = Schedule(every_seconds=7200)
"""Twelve syncs a day, the first two hours after the source is enabled."""


class DueSlot(NamedTuple):
    """The latest slot that is due, and how many are due with it."""

    slot: datetime
    coalesced: int


class Timetable(NamedTuple):
    """The slots of one source: its schedule, when it was enabled, and its id."""

    schedule: Schedule
    enabled_at: datetime
    source_id: str

    def find_due(self, considered_to: datetime, now: datetime) -> DueSlot | None:
        """The slots after `considered_to` up to `now` as one; None if there are none."""
        if self._is_plain_interval():
            first = self._number_at(considered_to)
            last = self._number_at(now)
            return DueSlot(self._interval_slot(last), last - first) if last > first else None
        latest, count = None, 0
        for slot in self._slots_after(considered_to):
            if slot > now:
                break
            latest, count = slot, count + 1
        return DueSlot(latest, count) if latest else None

    def next_slot(self, after: datetime) -> datetime | None:
        """The first slot after a moment; None for a manual schedule."""
        if self._is_plain_interval():
            return self._interval_slot(self._number_at(after) + 1)
        return next(self._slots_after(after), None)

    def preview(self, after: datetime, count: int) -> list[datetime]:
        """The next slots, each once."""
        slots: list[datetime] = []
        while len(slots) < count and (slot := self.next_slot(slots[-1] if slots else after)):
            slots.append(slot)
        return slots

    def is_far_ahead(self, considered_to: datetime, now: datetime) -> bool:
        """Whether `considered_to` is further ahead of `now` than two slots are apart.

        Then the clock was set back, and waiting for it would leave out slots.
        """
        slots = self.preview(now, 2)
        return len(slots) == 2 and considered_to - now > slots[1] - slots[0]

    def _is_plain_interval(self) -> bool:
        return bool(self.schedule.every_seconds) and not self.schedule.quiet

    def _number_at(self, moment: datetime) -> int:
        """The number of slots of the interval up to a moment."""
        return max(0, (moment - self.enabled_at) // self._every)

    def _interval_slot(self, number: int) -> datetime:
        return self.enabled_at + number * self._every

    @property
    def _every(self) -> timedelta:
        return timedelta(seconds=self.schedule.every_seconds)

    @property
    def _delay(self) -> timedelta:
        """The source's own delay of a cron schedule; slots of intervals are spread anyway."""
        if not self.schedule.cron or not self.schedule.spread_seconds:
            return timedelta(0)
        number = int.from_bytes(sha256(self.source_id.encode()).digest()[:8], "big")
        return timedelta(seconds=number % self.schedule.spread_seconds)

    def _slots_after(self, after: datetime) -> Iterator[datetime]:
        """The slots after a moment in order; those that a quiet window moves come together."""
        zone = ZoneInfo(self.schedule.zone)
        quiet, delay = self.schedule.quiet, self._delay
        window = _find_quiet(after, quiet, zone)
        # Slots before this moment that are moved to after it are in the same window.
        begin = window[0] - timedelta(microseconds=1) if window else after
        for raw in self._raw_slots(begin - delay):
            window = _find_quiet(raw + delay, quiet, zone)
            yield window[1] if window else raw + delay

    def _raw_slots(self, after: datetime) -> Iterator[datetime]:
        if self.schedule.cron:
            yield from _cron_slots(self.schedule.cron, ZoneInfo(self.schedule.zone), after)
        elif self.schedule.every_seconds:
            number = self._number_at(after)
            while True:
                number += 1
                yield self._interval_slot(number)


def _cron_slots(expression: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """The moments of a cron expression after another, each once, in UTC.

    Begun within hours of a clock change, cronsim's result depends on where it begins; begun well
    before the change it does not.
    """
    near = (after - NEAR).astimezone(zone).utcoffset() != (after + NEAR).astimezone(
        zone
    ).utcoffset()
    start = (after - 4 * NEAR if near else after).astimezone(zone)
    last = after
    for local in CronSim(expression, start):
        slot = local.astimezone(UTC)
        if slot > last:
            yield slot
            last = slot


def _find_quiet(moment: datetime, quiet: str, zone: ZoneInfo) -> tuple[datetime, datetime] | None:
    """The beginning and the end of the quiet window that a moment is in; None if it is in none.

    A window goes from the first time that the clock shows its beginning to the first time that it
    shows its end, so that an hour that is repeated does not cut it in two.
    """
    if not quiet:
        return None
    begin, end = map(time.fromisoformat, quiet.split("-"))
    today = moment.astimezone(zone).date()
    for day in (today - DAY, today):
        first = _existing(datetime.combine(day, begin, zone)).astimezone(UTC)
        last_day = day if begin < end else day + DAY
        last = _existing(datetime.combine(last_day, end, zone)).astimezone(UTC)
        if first <= moment < last:
            return first, last
    return None


def _existing(local: datetime) -> datetime:
    """The time, or the first one after it that a clock change does not leave out."""
    while local.astimezone(UTC).astimezone(local.tzinfo) != local:
        local += timedelta(minutes=1)
    return local
