"""Table parameters for Athena's partition projection.

Athena sees no partition outside the ranges and lists every folder within them. So a range begins
with the first partition and is extended when an earlier one is registered.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from eventlake.model.layout import partition_path

ENABLED = "projection.enabled"

Parameters = dict[str, str]
Partitions = Sequence[Mapping[str, str]]

_TWO_DIGITS: Mapping[str, str] = {"month": "1,12", "day": "1,31", "hr": "0,23"}
_DAYS = re.compile(r"(\d{4}-\d\d-\d\d),(NOW.*)")
_YEARS = re.compile(r"(\d{4}),(\d{4})")


def missing_parameters(
    current: Mapping[str, str],
    keys: Sequence[str],
    partitions: Partitions,
    location: str,
    today: str,
) -> Parameters:
    """The parameters to add or change so that Athena sees `partitions`.

    Ranges of a table without partitions begin `today`, a day such as `2026-11-01`. Empty
    if somebody has turned projection off.
    """
    if ENABLED not in current:
        return _all_parameters(keys, partitions, location, today)
    if current[ENABLED] != "true":
        return {}
    ranges = {f"projection.{key}.range": [values[key] for values in partitions] for key in keys}
    wider = {name: _extend_range(current.get(name, ""), values) for name, values in ranges.items()}
    return {name: value for name, value in wider.items() if value != current.get(name, "")}


def _all_parameters(
    keys: Sequence[str], partitions: Partitions, location: str, today: str
) -> Parameters:
    parameters = {ENABLED: "true"}
    for key in keys:
        values = [partition[key] for partition in partitions]
        parameters |= {
            f"projection.{key}.{name}": value
            for name, value in _key_parameters(key, keys, values, today)
        }
    folders = partition_path({key: f"${{{key}}}" for key in keys})
    return {**parameters, "storage.location.template": f"{location}{folders}/"}


def _key_parameters(
    key: str, keys: Sequence[str], values: Sequence[str], today: str
) -> Iterable[tuple[str, str]]:
    """The parameters of one partition column; `day` is a full date unless there is a `year`."""
    if key == "day" and "year" not in keys:
        return (
            ("type", "date"),
            ("format", "yyyy-MM-dd"),
            ("range", f"{min(values, default=today)},NOW+1DAY"),
            ("interval", "1"),
            ("interval.unit", "DAYS"),
        )
    if key == "year":  # integers cannot end with NOW
        first, last = min(values, default=today[:4]), max(values, default=today[:4])
        return (("type", "integer"), ("range", f"{first},{last}"), ("digits", "4"))
    return (("type", "integer"), ("range", _TWO_DIGITS[key]), ("digits", "2"))


def _extend_range(current: str, values: Sequence[str]) -> str:
    """A range that includes `values`; one in an unknown form is returned unchanged."""
    if days := _DAYS.fullmatch(current):
        return f"{min([days[1], *values])},{days[2]}"
    if years := _YEARS.fullmatch(current):
        return f"{min([years[1], *values])},{max([years[2], *values])}"
    return current
