"""Quarantined lines, as they are shown."""

from collections.abc import Iterable

from eventlake.errors import InvalidSettings
from eventlake.model.values import FrozenModel

SETTABLE = frozenset({"bad_type", "no_message_id", "no_event_name", "no_received_at"})
"""Reasons of lines that are JSON objects of a usual size, so that a field can be set."""
DAMAGED_FILE = "damaged_file"
REASONS = SETTABLE | {"too_large", "not_json", "not_object", "too_deep", DAMAGED_FILE}
"""All reasons for quarantine."""


def check_reasons(reasons: Iterable[str]) -> None:
    """Raise ValueError, with the known ones, for a reason that no line can have."""
    unknown = sorted(set(reasons) - REASONS)
    if unknown:
        raise ValueError(f"{unknown[0]!r} is unknown: choose one of {', '.join(sorted(REASONS))}")


def split_field(word: str) -> tuple[tuple[str, ...], str]:
    """Split `field=value` of a correction into the path of keys and the text of the value.

    Raises `InvalidSettings`.
    """
    name, sign, text = word.partition("=")
    path = tuple(name.split("."))
    if not sign or not all(path):
        raise InvalidSettings(
            f"a field to set is {word!r}: write field=value, such as "
            "receivedAt=2026-10-01T07:00:00Z or properties.total=5"
        )
    return path, text


class QuarantineQuery(FrozenModel):
    """Which quarantined lines to list."""

    reason: str = ""
    """Only lines with this reason."""
    after: str = ""
    """`next` of the page before."""
    limit: int = 100


class QuarantinedLine(FrozenModel):
    """A line that is not a valid event."""

    run_id: str
    file: str
    line: int
    reason: str
    detail: str
    raw: str
    """Its beginning; bytes that are not UTF-8 are replaced."""
    is_cut: bool


class QuarantinePage(FrozenModel):
    """A part of a source's quarantined lines."""

    items: tuple[QuarantinedLine, ...]
    next: str | None = None


class QuarantineReason(FrozenModel):
    """How many lines the runs of a day have quarantined for a reason."""

    day: str
    reason: str
    lines: int


class QuarantineSummary(FrozenModel):
    """What is in a source's quarantine."""

    items: tuple[QuarantineReason, ...]
