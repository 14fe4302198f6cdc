"""A job, which is a run on a cluster, and its state."""

from enum import StrEnum
from typing import NamedTuple

from eventlake.model.commit import Plan
from eventlake.model.values import FrozenModel


class Job(FrozenModel):
    """All that a run on a cluster needs besides the lake's settings. It has no secrets."""

    plan: Plan
    dead: tuple[str, ...] = ()
    suppressed: str = ""
    """The path of a JSON list of the suppressed ids; empty if there are none."""


class Phase(StrEnum):
    """The phase of a job."""

    WAITING = "wait"
    RUNNING = "run"
    ENDED = "ended"
    FAILED = "failed"


class JobState(NamedTuple):
    """The phase of a job, and the cluster's reason for a failure."""

    phase: Phase
    reason: str = ""

    @property
    def is_over(self) -> bool:
        return self.phase in (Phase.ENDED, Phase.FAILED)
