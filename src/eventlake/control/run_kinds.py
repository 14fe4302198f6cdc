"""The kinds of runs, and the parameters of each, checked when a run is requested."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from eventlake.errors import InvalidSettings
from eventlake.model.durations import parse_duration
from eventlake.model.quarantine import check_reasons, split_field
from eventlake.model.settings import SourceSettings, validate_settings
from eventlake.model.types import Type, timestamp_like
from eventlake.model.values import FrozenModel

SECOND = 1_000_000
"""Microseconds."""
MAX_CHUNKS = 10_000
TIME_FORM = "write 2026-10-01 or 2026-10-01T07:00:00Z"


class Kind(StrEnum):
    """What a run does."""

    SYNC = "sync"
    REPLAY = "replay"
    RETYPE = "retype"
    REDRIVE = "redrive"
    FORGET = "forget"
    COMPACT = "compact"
    VERIFY = "verify"


LANES: Mapping[Kind, str] = {
    Kind.SYNC: "sync",
    Kind.REPLAY: "replay",
    Kind.RETYPE: "replay",
    Kind.REDRIVE: "replay",
    Kind.COMPACT: "replay",
    Kind.FORGET: "erasure",
    Kind.VERIFY: "verify",
}
"""The lane of each kind of run: a source has one active run per lane."""
REBUILD = "rebuild"
"""What triggers a replay that changes settings: no sync of its source runs beside it."""
PLAN_LANE = "plan"
"""The lane of dry runs: they write nothing."""
PLANNED = frozenset(LANES) - {Kind.VERIFY}
"""The kinds that have a plan."""


class NoParameters(FrozenModel):
    """A run without parameters."""


class ReplayParameters(FrozenModel):
    """Which events to replay: those received in [since, until), or all."""

    since: str = ""
    """UTC, as 2026-10-01 or 2026-10-01T07:00:00Z."""
    until: str = ""
    all_time: bool = False
    events: tuple[str, ...] = ()
    """Only these events or tables."""
    infer: bool = False
    """Infer columns and types of tables that are replaced as a whole."""
    partial: tuple[str, ...] = ()
    """Patterns of raw logs that may be gone, whose rows are dropped."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of the connection that change; None for the default. Only with all events."""

    @model_validator(mode="after")
    def _check_window(self) -> Self:
        if self.settings and (not self.all_time or self.events):
            raise ValueError("settings change for all rows: use all_time, without events")
        if self.all_time:
            if self.since or self.until:
                raise ValueError("all_time is all events: leave since and until out")
            return self
        if not self.since or not self.until:
            raise ValueError("the time to replay is not set: give since and until, or all_time")
        since, until = self.window
        if since >= until:
            raise ValueError(f"until is {self.until}: it must be later than since")
        return self

    @property
    def window(self) -> tuple[int, int]:
        """The bounds in microseconds, of a replay that has some."""
        return _parse_time("since", self.since), _parse_time("until", self.until)


class RetypeParameters(FrozenModel):
    """Columns of a table that get other types."""

    table: str
    """As `table` or `database.table`."""
    types: dict[str, str]
    """The new type of each column."""
    replay: bool = False
    """Rewrite all rows of the table with the new types, in the same commit."""

    @field_validator("types")
    @classmethod
    def _check_types(cls, value: dict[str, str]) -> dict[str, str]:
        known = ("boolean", "bigint", "decimal", "string", "timestamp")
        if not value:
            raise ValueError("give at least one column and its type")
        for column, kind in value.items():
            if kind.lower() not in {*known, *map(str, Type)}:
                raise ValueError(f"the type of {column} is one of {', '.join(known)}")
        return value


class RedriveParameters(FrozenModel):
    """Which quarantined lines to load again, and how to correct them."""

    reasons: tuple[str, ...] = ()
    """Only lines with these reasons; all by default."""
    since: str = ""
    """Only lines that a run of this time or later has quarantined."""
    fields: tuple[str, ...] = ()
    """Fields to set, as `field=value`."""
    corrected: str | None = None
    """Corrected lines, in the form of `eventlake quarantine --json`, instead of the others."""

    @model_validator(mode="after")
    def _check_corrected(self) -> Self:
        if self.corrected is not None and (self.reasons or self.since or self.fields):
            raise ValueError("corrected has the lines: leave reasons, since and fields out")
        if self.corrected is not None and not self.corrected.strip():
            raise ValueError("corrected is empty: send the corrected lines again")
        return self

    @field_validator("reasons")
    @classmethod
    def _check_reasons(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        check_reasons(value)
        return value

    @field_validator("since")
    @classmethod
    def _check_since(cls, value: str) -> str:
        if value and timestamp_like(value) is None:
            raise ValueError(TIME_FORM)
        return value

    @field_validator("fields")
    @classmethod
    def _check_fields(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for word in value:
            split_field(word)
        return value


class CompactParameters(FrozenModel):
    """Which small files to merge."""

    older_than: str = "2h"
    """Only in partitions whose newest event is older than this."""

    @field_validator("older_than")
    @classmethod
    def _check_duration(cls, value: str) -> str:
        parse_duration(value)
        return value


_MODELS: Mapping[Kind, type[FrozenModel]] = {
    Kind.REPLAY: ReplayParameters,
    Kind.RETYPE: RetypeParameters,
    Kind.REDRIVE: RedriveParameters,
    Kind.COMPACT: CompactParameters,
}


def parse_parameters(kind: Kind, values: Mapping[str, Any]) -> FrozenModel:
    """The parameters of a run of a kind; raises InvalidSettings with each wrong one."""
    return validate_settings(_MODELS.get(kind, NoParameters), values)


class Chunking(StrEnum):
    """How a replay is cut into runs."""

    HOUR = "hour"
    DAY = "day"
    NONE = "none"
    """All in one run, and one commit."""


def choose_chunk_seconds(
    chunking: Chunking, parameters: ReplayParameters, settings: SourceSettings
) -> int:
    """The length of a replay's chunks; 0 for a replay in one run.

    A run replaces whole partitions, so chunks are not shorter than these. Raises InvalidSettings if
    there would be too many.
    """
    if chunking is Chunking.NONE or parameters.all_time or parameters.infer:
        return 0
    wanted = {Chunking.HOUR: 3600, Chunking.DAY: 86_400}[chunking]
    seconds = max(wanted, settings.date_partition.span // SECOND)
    since, until = parameters.window
    if (until - since) // (seconds * SECOND) >= MAX_CHUNKS:
        raise InvalidSettings(
            f"the replay would have over {MAX_CHUNKS:,} chunks: replay a shorter time, or by day"
        )
    return seconds


def cut_into_chunks(parameters: ReplayParameters, seconds: int) -> list[ReplayParameters]:
    """The replays of the chunks, which begin and end at multiples of their length."""
    if not seconds:
        return [parameters]
    return [
        parameters.model_copy(update={"since": _format_time(since), "until": _format_time(until)})
        for since, until in _cut(*parameters.window, seconds * SECOND)
    ]


def _cut(since: int, until: int, length: int) -> Iterator[tuple[int, int]]:
    while since < until:
        end = min((since // length + 1) * length, until)
        yield since, end
        since = end


def _parse_time(name: str, text: str) -> int:
    moment = timestamp_like(text)
    if moment is None:
        raise ValueError(f"{name} is {text!r}: {TIME_FORM}")
    return moment


def _format_time(micros: int) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    return moment.isoformat().replace("+00:00", "Z")
