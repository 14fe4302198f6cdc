"""What pages say about runs: what an error means, attempts, and ends without a report."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from eventlake import errors
from eventlake.control.run_kinds import Kind
from eventlake.control.runs import Run, RunState


class Cause(NamedTuple):
    """The kind of an error, what to do, and whether the checks of the lake show it."""

    title: str
    fix: str
    has_check: bool


class Ending(NamedTuple):
    """Why a run that has finished landed nothing; `short` is for lists."""

    short: str
    title: str
    detail: str


_DRY_RUN = Ending("dry run, nothing changed", "This was a dry run.", "It changed nothing.")
_NOTHING_NEW = Ending(
    "nothing new", "Nothing was new.", "The archive had no files that were not loaded before."
)
_NO_CHANGE = Ending("nothing to do", "There was nothing to do.", "The run changed nothing.")
_NO_ENDING = Ending("", "", "")
_RETRIED = "nothing now: it is tried again by itself."


def explain_error(run: Run) -> Cause:
    """The cause of a run's error, and what to do about it.

    Only a sync is started again by its schedule; others by a person.
    """
    is_sync = run.kind == Kind.SYNC and not run.dry_run
    again = "; the next sync tries again." if is_sync else ", then start it again."
    match run.error_code:
        case errors.InvalidSettings.code:
            # The checks are of the lake's settings, not of what a run is given to do.
            fix = f"correct what the message names{again}"
            return Cause("A setting is wrong", fix, is_sync)
        case errors.InsufficientPermissions.code:
            fix = f"grant what the message names{again}"
            return Cause("A permission is missing", fix, True)
        case errors.LimitExceeded.code:
            fix = "raise the limit, or skip or drop tables; the other tables landed."
            return Cause("A limit of the catalog is reached", fix, False)
        case errors.Conflict.code:
            fix = "nothing: the next sync tries again." if is_sync else "start it again."
            return Cause("Another run committed first", fix if run.ended_at else _RETRIED, False)
        case errors.Unavailable.code:
            fix = f"make what the message names available{again}"
            title = "Something that the run needs is not available"
            return Cause(title, fix if run.ended_at else _RETRIED, True)
    fix = "look at the log that the message names."
    return Cause("Something unexpected happened", fix, False)


def describe_ending(run: Run) -> Ending:
    """What to say about a run that has finished without a commit; empty texts for others."""
    if run.state is not RunState.FINISHED or run.lake_run or run.kind == Kind.VERIFY:
        return _NO_ENDING
    if run.dry_run:
        return _DRY_RUN
    return _NOTHING_NEW if run.kind == Kind.SYNC else _NO_CHANGE


def find_started_attempt(run: Run) -> int:
    """The number of the attempt that began at `started_at`; 0 if none has.

    A run that waits for its next attempt has the number of that one.
    """
    if run.started_at is None:
        return 0
    is_due_later = run.not_before is not None and run.started_at < run.not_before
    is_waiting = run.state is RunState.QUEUED or is_due_later
    return run.attempt - 1 if is_waiting and run.attempt > 1 else run.attempt


def list_options(run: Run) -> list[tuple[str, str]]:
    """The parameters of a run that are set, as they would be typed."""
    return [(name, _to_text(value)) for name, value in run.parameters.items() if value]


def _to_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {one}" for name, one in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
