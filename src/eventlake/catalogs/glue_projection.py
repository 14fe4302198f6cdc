"""Partition projection: table parameters by which Athena reckons the partitions itself.

Athena sees nothing outside the ranges, and looks at every folder within them: so a range begins
with the first partition that there is, and grows when an earlier one is registered.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from eventlake.model.layout import partition_path

ENABLED = "projection.enabled"

Parameters = dict[str, str]
Partitions = Sequence[Mapping[str, str]]

_TWO_DIGITS: Mapping[str, str] = {"month": "1,12", "day": "1,31", "hr": "0,23"}
_DAYS = re.compile(r"(\d{4}-\d\d-\d\d),(NOW.*)")
_YEARS = re.compile(r"(\d{4}),(\d{4})")


def projection(
    known: Mapping[str, str], keys: Sequence[str], partitions: Partitions, location: str
) -> Parameters:
    """The parameters that a table lacks so that Athena sees these partitions."""
    if ENABLED not in known:
        return _all(keys, partitions, location)
    if known[ENABLED] != "true":
        return {}  # someone has turned it off
    ranges = {f"projection.{key}.range": [one[key] for one in partitions] for key in keys}
    wider = {name: _widened(known.get(name, ""), values) for name, values in ranges.items()}
    return {name: value for name, value in wider.items() if value != known.get(name, "")}


def _all(keys: Sequence[str], partitions: Partitions, location: str) -> Parameters:
    parameters = {ENABLED: "true"}
    for key in keys:
        found = [partition[key] for partition in partitions]
        parameters |= {f"projection.{key}.{name}": value for name, value in _key(key, keys, found)}
    folders = partition_path({key: f"${{{key}}}" for key in keys})
    return {**parameters, "storage.location.template": f"{location}{folders}/"}


def _key(key: str, keys: Sequence[str], found: Sequence[str]) -> Iterable[tuple[str, str]]:
    """How one partition column is reckoned; a day is a whole date unless a year is beside it."""
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    if key == "day" and "year" not in keys:
        return (
            ("type", "date"),
            ("format", "yyyy-MM-dd"),
            ("range", f"{min(found, default=today)},NOW+1DAY"),
            ("interval", "1"),
            ("interval.unit", "DAYS"),
        )
    if key == "year":  # as a number it cannot end with NOW
        first, last = min(found, default=today[:4]), max(found, default=today[:4])
        return (("type", "integer"), ("range", f"{first},{last}"), ("digits", "4"))
    return (("type", "integer"), ("range", _TWO_DIGITS[key]), ("digits", "2"))


def _widened(known: str, values: Sequence[str]) -> str:
    """A range with these values in it; one in somebody else's form is left alone."""
    if days := _DAYS.fullmatch(known):
        return f"{min([days[1], *values])},{days[2]}"
    if years := _YEARS.fullmatch(known):
        return f"{min([years[1], *values])},{max([years[2], *values])}"
    return known
