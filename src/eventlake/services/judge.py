"""Find out from the lake how a run ended whose process may be gone."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Any

from eventlake.clock import SYSTEM_CLOCK, Clock
from eventlake.lake import Lake
from eventlake.lakes import open_parts
from eventlake.ledger import find_folder, is_dead, list_staged_runs
from eventlake.model.lake import LakeSettings
from eventlake.model.values import FrozenModel
from eventlake.pipeline.recover import recover
from eventlake.ports import NoProgress, Progress


class Verdict(StrEnum):
    """Whether a run has ended."""

    ENDED = "ended"
    """Its report says how; one that committed may have none, if it could not be written."""
    RUNNING = "running"
    GONE = "gone"
    """It ended without a commit and without a report: it landed nothing."""


class Judgement(FrozenModel):
    """What the lake knows of a run."""

    verdict: Verdict
    report: tuple[dict[str, Any], ...] = ()
    """The lines of its report, first that of the whole run."""


def judge_run(
    lake: str | Path | LakeSettings | Lake,
    folder: str,
    run_id: str,
    *,
    progress: Progress | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> Judgement:
    """Judge a run of the source with this folder; finish it if it died after its commit.

    A run without a stage and without a report counts as gone: it has not begun, or its stage was
    removed. Should it commit all the same, the ledger keeps another run from landing events twice.
    """
    parts = open_parts(lake, make=True, clock=clock)  # the run may have died before it made it
    folder = find_folder(parts.store, parts.layout, folder)
    ledger = parts.ledger(folder)
    if report := read_report(parts, folder, run_id):
        return Judgement(verdict=Verdict.ENDED, report=report)
    # The lease before the ledger: a run that seems dead may have committed in between.
    is_staged = run_id in list_staged_runs(ledger)
    if is_staged and not is_dead(ledger, run_id, clock.now()):
        return Judgement(verdict=Verdict.RUNNING)
    if ledger.find_sequence(run_id, ledger.read_state()) is None:
        return Judgement(verdict=Verdict.GONE)
    recover(parts, ledger, progress or NoProgress())
    return Judgement(verdict=Verdict.ENDED, report=read_report(parts, folder, run_id))


def read_report(parts: Lake, folder: str, run_id: str) -> tuple[dict[str, Any], ...]:
    """The lines of a run's report; empty if there is none."""
    path = parts.layout.report_path(folder, run_id)
    if not parts.store.exists(path):
        return ()
    return tuple(json.loads(line) for line in parts.store.read(path).splitlines())
