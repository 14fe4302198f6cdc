"""Redrive: load quarantined lines again, corrected, in one commit with their removal."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field

from eventlake import archive
from eventlake.clock import SYSTEM_CLOCK, Clock
from eventlake.errors import InvalidSettings
from eventlake.kernels.route import Rules
from eventlake.lake import Lake
from eventlake.lakes import open_parts
from eventlake.ledger import Ledger, State, list_sources
from eventlake.model.commit import Plan
from eventlake.model.lake import LakeSettings
from eventlake.model.quarantine import check_reasons
from eventlake.model.settings import SourceSettings
from eventlake.model.tables import renamed_tables
from eventlake.model.tunables import Tunables
from eventlake.model.values import FrozenModel
from eventlake.pipeline.corrections import (
    CorrectedLines,
    Correction,
    NoCorrection,
    SetFields,
    parse_corrected_lines,
    parse_fields,
)
from eventlake.pipeline.plan import make_plan
from eventlake.pipeline.quarantine import find_quarantine_files
from eventlake.pipeline.recover import find_unfinished_runs, recover
from eventlake.pipeline.redrive import (
    RedrivePreview,
    Selection,
    prepare_redrive,
    preview_redrive,
)
from eventlake.pipeline.retyped import find_retyped
from eventlake.pipeline.sync import Run
from eventlake.pipeline.table_format import list_known, list_skipped
from eventlake.ports import NoProgress, Progress, SparkProvider
from eventlake.services.load import LoadResult, make_result, run_in_process, spark_provider
from eventlake.services.replay import find_ledger, parse_time, retry_on_conflict
from eventlake.suppression import read_suppression_list

MESSAGE_ID = ("messageId",)


@dataclass(frozen=True)
class RedriveRequest:
    """Which lines of the quarantine to load again, and how to correct them."""

    source: str = ""
    """Empty for the only source of the lake."""
    reasons: Sequence[str] = ()
    """Only lines with these reasons; empty for all."""
    since: str | None = None
    """Only lines that a run of this time or later has quarantined."""
    fields: Sequence[str] = ()
    """Fields to set, as `field=value`."""
    corrected: Path | None = None
    """A file of corrected lines, instead of the other options."""


class RedriveResult(LoadResult):
    """The result of a redrive; `counts` has the lines that it loaded again."""

    matched: int = 0
    """Quarantined lines that were selected."""
    left: dict[str, int] = Field(default_factory=dict)
    """By reason, selected lines that stay as they are because they could not be corrected."""
    failed: dict[str, int] = Field(default_factory=dict)
    """By new reason, lines that are in the quarantine again."""


class RedrivePlan(FrozenModel):
    """What a redrive would do."""

    source: str
    lake: str
    matched: int
    """Quarantined lines that are selected."""
    tables: dict[str, int]
    """By table, lines that would land, unless their message id has landed before."""
    suppressed: int
    skipped: int
    failed: dict[str, int]
    """By new reason, lines that would be in the quarantine again."""
    left: dict[str, int]
    """By reason, selected lines that cannot be corrected in this way."""


def plan_redrive(
    request: RedriveRequest, *, lake: str | Path | LakeSettings | Lake, clock: Clock = SYSTEM_CLOCK
) -> RedrivePlan:
    """Say what a redrive would do, without writing anything."""
    parts = open_parts(lake, clock=clock)
    ledger, selection = _find_ledger(parts, request.source), _parse_selection(request)

    def attempt() -> RedrivePlan:
        state = find_unfinished_runs(ledger, clock.now()).state
        plan = make_plan(state, _settings_of(state), (), clock.time_ns(), Tunables())
        paths = find_quarantine_files(ledger)
        preview = preview_redrive(ledger, paths, selection, _routing_rules(parts, plan))
        _check_correction(request, selection.correction, preview)
        return RedrivePlan(
            source=plan.settings.source,
            lake=parts.store.root,
            tables=dict(sorted(preview.tables.items())),
            suppressed=preview.suppressed,
            skipped=preview.skipped,
            **_describe_lines(preview),
        )

    return retry_on_conflict(attempt)


def redrive(  # noqa: PLR0913 - as `replay`
    request: RedriveRequest,
    *,
    lake: str | Path | LakeSettings | Lake,
    where: str | SparkProvider = "local[*]",
    progress: Progress | None = None,
    on_planned: Callable[[str], object] = str,
    tunables: Tunables = Tunables(),  # noqa: B008 - it is frozen
    clock: Clock = SYSTEM_CLOCK,
) -> RedriveResult:
    """Load quarantined lines again, corrected; what is loaded leaves the quarantine.

    Lines that are still invalid are quarantined again, with their new reason. Runs in this process.
    If another run changes the quarantine meanwhile, the redrive is planned and run again.
    `on_planned` is called with the id of each run before it begins.
    """
    progress = progress or NoProgress()
    parts = open_parts(lake, clock=clock)
    ledger, selection = _find_ledger(parts, request.source), _parse_selection(request)
    spark, stores = spark_provider(where, parts), archive.lake_input_stores(parts.store)

    def attempt() -> RedriveResult:
        progress.step("plan", 0, 1, 0)
        dead, state, _ = recover(parts, ledger, progress)
        settings, in_catalog = _settings_of(state), find_retyped(parts, ledger, state)
        now = parts.clock.time_ns()
        plan = make_plan(state, settings, (), now, tunables, in_catalog.retyped)
        rules = _routing_rules(parts, plan)
        preview = preview_redrive(ledger, ledger.list_quarantine(), selection, rules)
        _check_correction(request, selection.correction, preview)
        summary: dict[str, Any] = {"source": settings.source, "lake": parts.store.root}
        lines = _describe_lines(preview)
        if not preview.lines:
            return RedriveResult(**_nothing_to_redrive(preview), **summary, **lines)
        on_planned(plan.run_id)
        run = Run(parts, ledger, spark, plan, progress, dead, stores, tunables)
        commit, finished = run_in_process(run, partial(prepare_redrive, selection, preview))
        known = {**summary, "files": 1, "warnings": in_catalog.warnings}
        result = make_result(commit, finished, known, run.timings)
        return RedriveResult(**dict(result), **lines)

    return retry_on_conflict(attempt)


def _find_ledger(parts: Lake, source: str) -> Ledger:
    """The ledger of a source, or of the only one; raises `InvalidSettings`."""
    if not source:
        known = [one.source for one in list_sources(parts.store, parts.layout)]
        if len(known) != 1:
            names = ", ".join(sorted(known)) or "none yet"
            raise InvalidSettings(f"source is not set: give --source; known: {names}")
        source = known[0]
    return find_ledger(parts, source)


def _settings_of(state: State) -> SourceSettings:
    assert state.settings  # the ledger has commits
    return state.settings


def _describe_lines(preview: RedrivePreview) -> dict[str, Any]:
    return {
        "matched": preview.matched,
        "left": dict(sorted(preview.left.items())),
        "failed": dict(sorted(preview.failed.items())),
    }


def _nothing_to_redrive(preview: RedrivePreview) -> dict[str, Any]:
    """Status and message of a redrive without lines: a failure if lines were selected."""
    if not preview.matched:
        return {"status": "nothing", "message": "nothing to redrive: no quarantined line matches"}
    reasons = ", ".join(f"{n:,} {reason}" for reason, n in sorted(preview.left.items()))
    return {
        "status": "failed",
        "message": f"nothing was redriven: the selected lines stay as they are ({reasons}); "
        "correct the lines themselves, or set fields of those that are JSON objects",
    }


def _routing_rules(parts: Lake, plan: Plan) -> Rules:
    """The rules by which the run sorts its events into tables."""
    settings = plan.settings
    return Rules(
        settings.naming,
        settings.table_prefix,
        list_skipped(plan),
        read_suppression_list(parts.store).matcher(),
        renamed_tables(plan.tables.values()),
        known=list_known(plan),
    )


def _parse_selection(request: RedriveRequest) -> Selection:
    """The selection and correction of a request; raises `InvalidSettings`."""
    try:
        check_reasons(request.reasons)
    except ValueError as problem:
        raise InvalidSettings(f"reason {problem}") from None
    if request.corrected:
        if request.fields or request.reasons or request.since:
            raise InvalidSettings(
                "--from-file has the lines and their corrections: leave --set, --reason and "
                "--since out"
            )
        corrected = _read_corrected_lines(request.corrected)
        return Selection(corrected, keys=frozenset(corrected.lines))
    since = parse_time("--since", request.since) * 1000 if request.since else 0
    correction = parse_fields(request.fields) if request.fields else NoCorrection()
    return Selection(correction, frozenset(request.reasons), since)


def _read_corrected_lines(path: Path) -> CorrectedLines:
    try:
        data = path.read_bytes()
    except OSError as problem:
        raise InvalidSettings(f"--from-file {path}: {problem.strerror}") from problem
    return parse_corrected_lines(data, str(path))


def _check_correction(
    request: RedriveRequest, correction: Correction, preview: RedrivePreview
) -> None:
    """Raise `InvalidSettings` for a correction that does not fit the quarantine."""
    if isinstance(correction, CorrectedLines):
        correction.check_found(str(request.corrected))
    if isinstance(correction, SetFields) and MESSAGE_ID in correction.values and preview.lines > 1:
        raise InvalidSettings(
            f"messageId: {preview.lines:,} lines would get the same id, and all but one of them "
            "would be dropped as duplicates: correct the lines one by one"
        )
