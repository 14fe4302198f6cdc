"""Quarantined lines, as they are shown."""

from eventlake.model.values import FrozenModel


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
