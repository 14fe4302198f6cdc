"""A run that is handed to a cluster: what it is given, and what is known of it from outside."""

from enum import StrEnum
from typing import NamedTuple

from eventlake.model.commit import Plan
from eventlake.model.layout import STAGE, stage_path
from eventlake.model.values import FrozenModel

CODE = f"{STAGE}/code"
"""Where the code that clusters run lies, a folder for each version of it."""


class Job(FrozenModel):
    """With the lake's settings, all that a run on a cluster needs. Nothing in it is secret."""

    plan: Plan
    dead: tuple[str, ...] = ()
    suppressed: str = ""
    """The object with the suppressed ids, a JSON list; none without any."""


class Phase(StrEnum):
    """How far a job is."""

    WAITING = "wait"
    RUNNING = "run"
    ENDED = "ended"
    FAILED = "failed"


class JobState(NamedTuple):
    """How far a job is, and what its cluster says of why."""

    phase: Phase
    reason: str = ""

    @property
    def is_over(self) -> bool:
        return self.phase in (Phase.ENDED, Phase.FAILED)


def job_path(run_id: str) -> str:
    """The job's own object: while it is there, the run is wanted."""
    return f"{stage_path(run_id)}/job.json"


def suppressed_path(run_id: str) -> str:
    return f"{stage_path(run_id)}/suppressed.json"
