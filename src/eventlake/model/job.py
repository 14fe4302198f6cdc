"""A job, which is a run in another process, such as on a cluster; and its state."""

from enum import StrEnum
from typing import NamedTuple

from eventlake.model.commit import Plan
from eventlake.model.values import FrozenModel


class Job(FrozenModel):
    """All that a run in another process needs besides the lake's settings. It has no secrets."""

    plan: Plan
    dead: tuple[str, ...] = ()


class SubmittedJob(FrozenModel):
    """A job as its runner knows it, and the process that submitted it."""

    handle: str
    host: str
    pid: int


class Phase(StrEnum):
    """The phase of a job."""

    WAITING = "wait"
    RUNNING = "run"
    ENDED = "ended"
    FAILED = "failed"


class Step(NamedTuple):
    """The arguments of the last call of `Progress.step` in a job."""

    stage: str
    done: int = 0
    total: int = 0
    rows: int = 0


class JobState(NamedTuple):
    """The phase of a job, the reason for a failure, and the progress if the runner knows it."""

    phase: Phase
    reason: str = ""
    step: Step | None = None

    @property
    def is_over(self) -> bool:
        return self.phase in (Phase.ENDED, Phase.FAILED)
