"""What each kind of run does, and its plan."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from eventlake.control.erasures import ErasedUsers
from eventlake.control.results import Outcome
from eventlake.control.run_kinds import (
    CompactParameters,
    Kind,
    RedriveParameters,
    ReplayParameters,
    RetypeParameters,
)
from eventlake.control.runs import Run, RunState
from eventlake.errors import Damaged, InvalidSettings, NotFound
from eventlake.lakes import open_parts, open_store
from eventlake.model.lake import LakeSettings
from eventlake.model.settings import SourceSettings
from eventlake.model.values import FrozenModel
from eventlake.ports import JobRunner, Progress
from eventlake.services.check import check
from eventlake.services.compact import compact, plan_compaction
from eventlake.services.forget import (
    ForgetResult,
    find_user_ids,
    forget_ids,
    judge_forget,
    plan_forget_ids,
)
from eventlake.services.inputs import check_source
from eventlake.services.judge import Verdict
from eventlake.services.load import Where, plan_sync, sync
from eventlake.services.read import open_lake
from eventlake.services.redrive import RedriveRequest, plan_redrive, redrive
from eventlake.services.replay import ReplayRequest, plan_replay, replay
from eventlake.services.retype import plan_retype, retype, retype_request
from eventlake.services.user_files import list_folders

MAX_ITEMS = 100
"""Items of a list that are stored with a plan or result."""
STATES = {"partial": RunState.PARTIAL, "failed": RunState.FAILED}


class Task(NamedTuple):
    """A run, and the settings with which it works."""

    run: Run
    source: SourceSettings
    lake: LakeSettings
    place: tuple[str, int]
    """The id and the version of the lake."""
    secrets: Mapping[str, str]
    """The environment in which the lake finds its secrets."""
    is_used: bool = True
    """Whether a run has landed something in the lake."""
    users: ErasedUsers | None = None
    """Those that a run of the kind `forget` is for."""
    folders: frozenset[str] = frozenset()
    """The folders of all sources that are connected to the lake."""


class Hooks(NamedTuple):
    """What a run reports while it works."""

    progress: Progress
    on_planned: Callable[[str], None]
    """Called with the lake's id of the run before anything is written."""
    choose_place: Callable[[], AbstractContextManager[Where]]
    """Where the run is executed."""
    store_ids: Callable[[tuple[str, ...]], tuple[str, ...]] = tuple
    """Stores the ids of the users of an erasure; returns those that are stored then."""


def work(task: Task, hooks: Hooks) -> Outcome:
    """Do what the run's kind says; return what is known of its end besides the lake's report."""
    kind = Kind(task.run.kind)
    if task.is_used:
        open_store(task.lake, make=True).check_not_gone()
    if task.run.dry_run:
        hooks.progress.step("plan", 0, 1, 0)
        return Outcome(state=RunState.FINISHED, plan=_PLANS[kind](task))
    return _WORKS[kind](task, hooks)


def _sync(task: Task, hooks: Hooks) -> Outcome:
    if task.run.check_first:
        _check(task.lake)
    try:
        check_source(open_parts(task.lake, make=True), task.source)
    except NotFound:  # no event has come yet
        return Outcome(state=RunState.FINISHED)
    with hooks.choose_place() as where:
        done = sync(
            task.source.source,
            lake=task.lake,
            changes=task.source.model_dump(),
            where=where,
            progress=hooks.progress,
            on_planned=hooks.on_planned,
        )
    return _finish(done.status, done.message, warnings=done.warnings)


def _check(lake: LakeSettings) -> None:
    """Raise InvalidSettings with the first check that fails.

    Tables that the catalog refused do not count, because only a sync tries them again.
    """
    for one in check(lake, refusals=False):
        if not one.ok:
            raise InvalidSettings(f"the check {one.name!r} fails: {one.detail}")


def _replay(task: Task, hooks: Hooks) -> Outcome:
    return _run_replay(task, _replay_request(task), hooks)


def _run_replay(task: Task, request: ReplayRequest, hooks: Hooks) -> Outcome:
    with hooks.choose_place() as where:
        done = replay(
            request,
            lake=task.lake,
            where=where,
            progress=hooks.progress,
            on_planned=hooks.on_planned,
        )
    return _finish(
        done.status,
        done.message,
        replaced_rows=done.replaced_rows,
        replaced_files=done.replaced_files,
        left_out=done.left_out,
        warnings=done.warnings,
    )


def _replay_request(task: Task) -> ReplayRequest:
    given = ReplayParameters.model_validate(task.run.parameters)
    return ReplayRequest(
        task.source.source,
        given.since or None,
        given.until or None,
        all_time=given.all_time,
        events=given.events,
        changes=task.source.model_dump(exclude={"source"}),
        infer=given.infer,
        partial=given.partial,
    )


def _retype(task: Task, hooks: Hooks) -> Outcome:
    given = RetypeParameters.model_validate(task.run.parameters)
    request = _retype_request(task)
    if given.replay:
        return _run_replay(task, request, hooks)
    done = retype(
        _full_name(task),
        given.types,
        lake=task.lake,
        progress=hooks.progress,
        on_planned=hooks.on_planned,
    )
    return _finish(done.status, done.message, **_trim(done))


def _retype_request(task: Task) -> ReplayRequest:
    """The replay of the table; raises InvalidSettings for a table of another source."""
    given = RetypeParameters.model_validate(task.run.parameters)
    request = retype_request(_full_name(task), given.types, lake=task.lake)
    if request.source != task.source.source_id:
        raise InvalidSettings(
            f"{_full_name(task)} is a table of the source {request.source}, not of "
            f"{task.source.source}"
        )
    return request


def _full_name(task: Task) -> str:
    table: str = task.run.parameters["table"]
    return table if "." in table else f"{task.source.database}.{table}"


def _redrive(task: Task, hooks: Hooks) -> Outcome:
    with hooks.choose_place() as where, _redrive_request(task) as request:
        assert not isinstance(where, JobRunner)  # redrives are not executed on clusters
        done = redrive(
            request,
            lake=task.lake,
            where=where,
            progress=hooks.progress,
            on_planned=hooks.on_planned,
        )
    landed = {one.table.name: one.counts.landed for one in done.tables}
    found = {"matched": done.matched, "left": done.left, "failed": done.failed, "tables": landed}
    return _finish(done.status, done.message, **found)


@contextmanager
def _redrive_request(task: Task) -> Iterator[RedriveRequest]:
    """The request of a redrive; corrected lines are in a file until the end of the block."""
    given = RedriveParameters.model_validate(task.run.parameters)
    request = RedriveRequest(task.source.source, given.reasons, given.since or None, given.fields)
    if given.corrected is None:
        yield request
        return
    with TemporaryDirectory(prefix="eventlake-") as folder:
        path = Path(folder) / "corrected"
        path.write_text(given.corrected, "utf-8")
        yield replace(request, corrected=path)


def _plan_redrive(task: Task) -> dict[str, Any]:
    with _redrive_request(task) as request:
        return _trim(plan_redrive(request, lake=task.lake))


def _compact(task: Task, hooks: Hooks) -> Outcome:
    with hooks.choose_place() as where:
        (done,) = compact(
            task.source.source,
            lake=task.lake,
            older_than=_older_than(task),
            where=where,
            progress=hooks.progress,
            on_planned=hooks.on_planned,
        )
    return _finish(done.status, done.message, **_trim(done))


def _older_than(task: Task) -> str:
    return CompactParameters.model_validate(task.run.parameters).older_than


def _verify(task: Task, hooks: Hooks) -> Outcome:
    read = 0

    def say(_: str) -> None:
        nonlocal read
        read += 1
        hooks.progress.step("verify", read, 0, 0)

    hooks.progress.step("verify", 0, 0, 0)
    found = open_lake(task.lake).verify(task.source.source, say)
    result = {"ok": found.ok, **_trim(found)}
    if found.ok:
        return Outcome(state=RunState.FINISHED, result=result)
    count = len(found.problems)
    error = f"{count:,} difference{'s' if count > 1 else ''} between raw events, tables and catalog"
    return Outcome(state=RunState.FAILED, error_code=Damaged.code, error=error, result=result)


# Erasures


def _forget(task: Task, hooks: Hooks) -> Outcome:
    folders, ids = _find_folders(task), _find_ids(task, hooks)
    if not folders:
        return Outcome(state=RunState.FINISHED, result={"removed": 0, "receipts": []})
    done = forget_ids(
        ids,
        folders,
        lake=task.lake,
        progress=hooks.progress,
        on_requested=hooks.on_planned,
    )
    return _erased(done)


def judge_erasure(task: Task, lake_run: str, without_commit: Outcome) -> Outcome | None:
    """How a run of the kind `forget` ended; finishes what it began. None while it runs."""
    assert task.users
    verdict, done = judge_forget(lake_run, task.users.ids, _find_folders(task), lake=task.lake)
    if verdict is Verdict.RUNNING:
        return None
    outcome = _erased(done) if done else without_commit
    return outcome.model_copy(update={"lake_run": lake_run})


def _find_folders(task: Task) -> list[str]:
    """The folders of the run: that of its source, and of the first run those of no source."""
    assert task.users
    found = list_folders(open_parts(task.lake, make=True))
    own = (task.source.folder, task.source.source_id)
    first = task.users.is_first
    return [one for one in found if one in own or (first and one not in task.folders)]


def _find_ids(task: Task, hooks: Hooks) -> tuple[str, ...]:
    """The ids of the users; those tied to them are searched in all sources, once."""
    users = task.users
    assert users
    if not users.also_anonymous:
        return users.ids
    hooks.progress.step("search", 0, 1, 0)
    parts = open_parts(task.lake, make=True)
    return hooks.store_ids(find_user_ids(users.ids, list_folders(parts), lake=parts))


def _erased(done: ForgetResult) -> Outcome:
    """The end of an erasure; the ids are left out."""
    result = _trim(done) | {"ids": len(done.ids), "receipts": list(done.receipts)}
    result["removed"] = sum(one.removed for one in done.files)
    return _finish(done.status, done.message, **result)


def _plan_forget(task: Task) -> dict[str, Any]:
    assert task.users
    parts = open_parts(task.lake, make=True)
    ids = task.users.ids
    if task.users.also_anonymous:
        ids = find_user_ids(ids, list_folders(parts), lake=parts)
    planned = plan_forget_ids(ids, _find_folders(task), lake=parts)
    removed = sum(one.removed for one in planned.files)
    return _trim(planned) | {"ids": len(planned.ids), "removed": removed}


def _finish(status: str, message: str, /, **result: Any) -> Outcome:
    """The outcome of a service that returned, if the lake has no report that says more."""
    state = STATES.get(status, RunState.FINISHED)
    error = message if state is not RunState.FINISHED else ""
    code = InvalidSettings.code if state is RunState.FAILED else ""
    shown = {"message": message} if message and not error else {}
    trimmed = {name: _trim_value(value) for name, value in result.items()}
    return Outcome(state=state, error=error, error_code=code, result={**trimmed, **shown})


def _trim(value: FrozenModel) -> dict[str, Any]:
    """A value as JSON; of long lists the beginning, with their length as `…_total`."""
    found = value.model_dump(mode="json")
    totals = {
        f"{name}_total": len(one)
        for name, one in found.items()
        if isinstance(one, list) and len(one) > MAX_ITEMS
    }
    return {name: _trim_value(one) for name, one in found.items()} | totals


def _trim_value(value: Any) -> Any:
    return list(value[:MAX_ITEMS]) if isinstance(value, list | tuple) else value


_WORKS: Mapping[Kind, Callable[[Task, Hooks], Outcome]] = {
    Kind.SYNC: _sync,
    Kind.REPLAY: _replay,
    Kind.RETYPE: _retype,
    Kind.REDRIVE: _redrive,
    Kind.FORGET: _forget,
    Kind.COMPACT: _compact,
    Kind.VERIFY: _verify,
}
_PLANS: Mapping[Kind, Callable[[Task], dict[str, Any]]] = {
    Kind.SYNC: lambda task: _trim(
        plan_sync(task.source.source, lake=task.lake, changes=task.source.model_dump())
    ),
    Kind.REPLAY: lambda task: _trim(plan_replay(_replay_request(task), lake=task.lake)),
    Kind.RETYPE: lambda task: _trim(_plan_retype(task)),
    Kind.REDRIVE: _plan_redrive,
    Kind.FORGET: _plan_forget,
    Kind.COMPACT: lambda task: _trim(
        plan_compaction(task.source.source, lake=task.lake, older_than=_older_than(task))[0]
    ),
}


def _plan_retype(task: Task) -> FrozenModel:
    _retype_request(task)
    return plan_retype(_full_name(task), task.run.parameters["types"], lake=task.lake)
