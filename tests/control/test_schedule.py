"""Which slots schedules have: intervals, cron with clock changes, quiet windows, spread."""

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from eventlake.control.schedule import DEFAULT_SCHEDULE, DueSlot, Schedule, Timetable
from eventlake.errors import InvalidSettings
from eventlake.model.settings import validate_settings

BERLIN = ZoneInfo("Europe/Berlin")
SPRING = datetime(2026, 3, 28, 12, tzinfo=UTC)
AUTUMN = datetime(2026, 10, 24, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def local_times(timetable: Timetable, after: datetime, count: int) -> list[str]:
    zone = ZoneInfo(timetable.schedule.zone)
    slots = timetable.preview(after, count)
    return [slot.astimezone(zone).strftime("%d %H:%M%z") for slot in slots]


def cron(expression: str, zone: str = "Europe/Berlin", **options: object) -> Timetable:
    return Timetable(Schedule(cron=expression, zone=zone, **options), SPRING, "source")


def every(seconds: int, enabled_at: datetime = SPRING, **options: object) -> Timetable:
    return Timetable(Schedule(every_seconds=seconds, **options), enabled_at, "source")


# Rule 1: intervals are elapsed time, cron follows the wall clock


def test_the_default_is_twelve_a_day_and_the_first_two_hours_after_enabling() -> None:
    timetable = Timetable(DEFAULT_SCHEDULE, AUTUMN, "source")
    slots = timetable.preview(AUTUMN, 24)
    assert slots[0] == AUTUMN + 2 * HOUR
    assert {after - before for before, after in pairwise(slots)} == {2 * HOUR}
    day = timetable.find_due(AUTUMN, AUTUMN + timedelta(days=1))
    assert day == DueSlot(AUTUMN + timedelta(days=1), 12)


def test_a_time_that_the_clock_leaves_out_is_right_after_the_change() -> None:
    daily = cron("30 2 * * *")
    assert local_times(daily, SPRING, 2) == ["29 03:00+0200", "30 02:30+0200"]


def test_a_fixed_time_in_the_repeated_hour_is_once() -> None:
    daily = cron("30 2 * * *")
    assert local_times(daily, AUTUMN, 2) == ["25 02:30+0200", "26 02:30+0100"]
    second_pass = datetime(2026, 10, 25, 1, 10, tzinfo=UTC)  # 02:10 for the second time
    assert local_times(daily, second_pass, 1) == ["26 02:30+0100"]


def test_wildcard_hours_follow_the_wall_clock() -> None:
    hourly = cron("0 * * * *")
    shown = local_times(hourly, datetime(2026, 10, 24, 23, 30, tzinfo=UTC), 3)
    assert shown == ["25 02:00+0200", "25 02:00+0100", "25 03:00+0100"]
    shown = local_times(hourly, datetime(2026, 3, 28, 23, 30, tzinfo=UTC), 2)
    assert shown == ["29 01:00+0100", "29 03:00+0200"]


def test_words_and_spaces_are_accepted_in_cron() -> None:
    assert Schedule(cron="@Daily").cron == "0 0 * * *"
    assert Schedule(cron="0  6 * *  mon").cron == "0 6 * * mon"


def test_manual_has_no_slots() -> None:
    manual = Timetable(Schedule(), SPRING, "source")
    assert manual.next_slot(SPRING) is None
    assert manual.find_due(SPRING, SPRING + timedelta(days=9)) is None
    assert not manual.is_far_ahead(SPRING + timedelta(days=9), SPRING)


EXPRESSIONS = [
    "30 2 * * *",
    "0 */2 * * *",
    "*/15 * * * *",
    "15 1,2,3 * * *",
    "0 3 * * *",
    "45 1 * * 0",
    "*/7 2 * * *",
    "0,30 2 * * *",
]
CHANGES = [
    ("Europe/Berlin", SPRING),
    ("Europe/Berlin", AUTUMN),
    ("America/New_York", datetime(2026, 3, 7, 12, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 10, 31, 12, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 4, 4, 0, tzinfo=UTC)),  # by half an hour
    ("Australia/Lord_Howe", datetime(2026, 10, 3, 0, tzinfo=UTC)),
]
QUIET = ["", "22:00-02:30", "01:15-02:45", "02:15-23:00"]


@pytest.mark.parametrize(("zone", "day"), CHANGES)
@pytest.mark.parametrize("quiet", QUIET)
def test_slots_do_not_depend_on_where_one_begins(zone: str, day: datetime, quiet: str) -> None:
    """Two parts of a day around a clock change have together what the whole has."""
    dice, end = random.Random(7), day + timedelta(hours=24)
    schedules = [Schedule(cron=one, zone=zone, quiet=quiet) for one in EXPRESSIONS]
    schedules.append(Schedule(every_seconds=420, zone=zone, quiet=quiet))
    for schedule in schedules:
        timetable = Timetable(schedule, day - HOUR, "source")
        whole = slots_between(timetable, day, end)
        assert whole == sorted(set(whole)), schedule
        for _ in range(5):
            middle = day + timedelta(seconds=dice.randrange(9 * 3600, 20 * 3600))
            parts = slots_between(timetable, day, middle) + slots_between(timetable, middle, end)
            assert parts == whole, (schedule, middle)
            halves = [timetable.find_due(day, middle), timetable.find_due(middle, end)]
            counted = sum(due.coalesced for due in halves if due)
            total = timetable.find_due(day, end)
            assert counted == (total.coalesced if total else 0), (schedule, middle)


def slots_between(timetable: Timetable, after: datetime, end: datetime) -> list[datetime]:
    slots = []
    while (slot := timetable.next_slot(after)) and slot <= end:
        slots.append(slot)
        after = slot
    return slots


# Rule 2: several due slots are one


def test_many_due_slots_are_one_with_their_number() -> None:
    quarter = every(900)
    assert quarter.find_due(SPRING, SPRING + timedelta(minutes=14)) is None
    assert quarter.find_due(SPRING, SPRING + 10 * HOUR) == DueSlot(SPRING + 10 * HOUR, 40)
    hourly = cron("0 * * * *")
    latest = SPRING + timedelta(days=30)
    assert hourly.find_due(SPRING, latest + timedelta(seconds=1)) == DueSlot(latest, 720)


def test_a_slot_is_due_once() -> None:
    quarter = every(900)
    slot = SPRING + timedelta(minutes=15)
    assert quarter.find_due(SPRING, slot) == DueSlot(slot, 1)
    assert quarter.find_due(slot, slot + timedelta(minutes=14, seconds=59)) is None


# Rule 6: quiet windows and spread


def test_slots_in_a_quiet_window_are_moved_to_its_end_together() -> None:
    evening = datetime(2026, 3, 2, 20, 30, tzinfo=BERLIN).astimezone(UTC)
    enabled = datetime(2026, 3, 2, 12, tzinfo=BERLIN).astimezone(UTC)
    hourly = every(3600, enabled, quiet="22:00-06:00", zone="Europe/Berlin")
    shown = ["02 21:00+0100", "03 06:00+0100", "03 07:00+0100"]
    assert local_times(hourly, evening, 3) == shown
    morning = datetime(2026, 3, 3, 6, tzinfo=BERLIN)
    due = hourly.find_due(evening + HOUR, morning)
    assert due == DueSlot(morning.astimezone(UTC), 9)  # 22, 23, …, 5 and 6 o'clock


def test_a_quiet_window_may_end_in_the_hour_that_the_clock_leaves_out() -> None:
    half_hourly = cron("*/30 * * * *", quiet="00:15-02:30")
    evening = datetime(2026, 3, 28, 22, 50, tzinfo=UTC)
    assert local_times(half_hourly, evening, 3) == [
        "29 00:00+0100",
        "29 03:00+0200",
        "29 03:30+0200",
    ]


def test_sources_with_the_same_cron_are_spread() -> None:
    schedule = Schedule(cron="0 6 * * *", spread_seconds=600)
    slots = {Timetable(schedule, SPRING, f"s{n}").next_slot(SPRING) for n in range(200)}
    begin = datetime(2026, 3, 29, 6, tzinfo=UTC)
    assert all(begin <= slot < begin + timedelta(minutes=10) for slot in slots if slot)
    assert len(slots) > 100
    again = Timetable(schedule, SPRING, "s1")
    assert again.preview(SPRING, 2)[1] - again.preview(SPRING, 2)[0] == timedelta(days=1)


# Rule 8: how far is too far ahead


def test_considered_to_is_far_ahead_beyond_the_next_interval() -> None:
    quarter = every(900)
    assert not quarter.is_far_ahead(SPRING + timedelta(minutes=15), SPRING)
    assert quarter.is_far_ahead(SPRING + timedelta(minutes=16), SPRING)
    assert cron("0 6 * * *").is_far_ahead(SPRING + timedelta(hours=25), SPRING)
    assert not cron("0 6 * * *").is_far_ahead(SPRING + timedelta(hours=23), SPRING)


# What is refused


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"every_seconds": 59}, r"every_seconds is 59: at least 60"),
        ({"every_seconds": -1}, "every_seconds is -1"),
        ({"cron": "0 0 6 * * *"}, "five fields: minute, hour"),
        ({"cron": "61 * * * *"}, "cron is '61 .*the minute, the first field, should be 0 to 59"),
        ({"cron": "0 0 30 2 *"}, "should be 1 to 31, and in the month"),
        ({"cron": "@reboot"}, "five fields"),
        ({"zone": "Berlin"}, "zone is 'Berlin': an IANA time zone such as"),
        ({"zone": "../etc/passwd"}, "an IANA time zone"),
        ({"quiet": "22-6"}, "quiet is '22-6'"),
        ({"quiet": "22:00-06:00\n"}, "two times from 00:00 to 23:59"),
        ({"quiet": "00:00-24:00"}, "two times from 00:00 to 23:59, such as 22:00-06:00"),
        ({"quiet": "22:00-22:00"}, "must end at another time"),
        ({"every_seconds": 60, "cron": "0 6 * * *"}, "set one of the two, or neither"),
        ({"spread_seconds": 3601}, "spread_seconds is 3601"),
    ],
)
def test_wrong_schedules_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidSettings, match=message):
        validate_settings(Schedule, values)
