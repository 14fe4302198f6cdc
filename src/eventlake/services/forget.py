"""Forget a user: remove the user's events from tables, quarantine, raw logs and rejected logs."""

import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eventlake.clock import SYSTEM_CLOCK, Clock
from eventlake.errors import Cancelled, EventLakeError, Internal, InvalidSettings
from eventlake.kernels.erase import ErasedIds
from eventlake.kernels.line_ids import read_ids
from eventlake.kernels.lines import Damage, read_blocks
from eventlake.kernels.user_hashes import hash_ids
from eventlake.lake import Lake
from eventlake.lakes import open_parts
from eventlake.ledger import DEAD_AFTER, find_source, is_running
from eventlake.model.erasure import ID_COLUMNS, FileKind, Receipt
from eventlake.model.lake import LakeSettings
from eventlake.model.layout import run_day
from eventlake.model.naming import Call
from eventlake.model.values import FrozenModel
from eventlake.pipeline.recover import find_unfinished_runs
from eventlake.ports import NoProgress, Progress
from eventlake.services.erase import Matches, SourceErasure, erase_source, find_matches
from eventlake.services.inputs import unknown_source
from eventlake.services.judge import Verdict
from eventlake.services.replay import retry_on_conflict
from eventlake.services.user_files import SourceFiles, UserFile, list_folders, read_source_files
from eventlake.stores.damage import reading_parquet
from eventlake.suppression import (
    ErasureRequest,
    SuppressionList,
    change_suppression_list,
    hash_user,
    read_suppression_list,
)

NO_PID = 0
"""The process of a request that has failed."""
TYING_CALLS = (Call.IDENTIFY, Call.ALIAS)
"""The calls that tie an anonymous id or a previous id to a user."""


class ForgottenFile(FrozenModel):
    """A file with events of the user."""

    kind: FileKind
    path: str
    rows: int
    """Rows or lines of the file."""
    removed: int
    """Those of the user."""


class ForgetResult(FrozenModel):
    """What was removed of a user, or would be."""

    lake: str
    status: str
    message: str = ""
    ids: tuple[str, ...]
    """The user id, then the ids that `identify` and `alias` calls tie to it."""
    sources: tuple[str, ...]
    """The folders of the sources that were searched."""
    files: tuple[ForgottenFile, ...] = ()
    opened: int = 0
    """Files that were searched."""
    receipts: tuple[str, ...] = ()
    """Paths of the receipts, one for each source with events of the user."""
    seconds: float = 0.0
    remaining: tuple[str, ...] = ()
    """Raw logs that may still have events of the user, because they cannot be changed."""

    @property
    def rows(self) -> int:
        """Rows of tables that were removed."""
        return sum(one.removed for one in self.files if one.kind is FileKind.TABLE)


def plan_forget(
    user: str,
    *,
    lake: str | Path | Lake,
    source: str | None = None,
    also_anonymous: bool = False,
    clock: Clock = SYSTEM_CLOCK,
) -> ForgetResult:
    """Find the events of a user without writing anything."""
    parts = open_parts(lake, clock=clock)
    folders = _choose_folders(parts, user, source)
    users = find_user_ids((user,), folders, lake=parts) if also_anonymous else (user,)
    return plan_forget_ids(users, folders, lake=parts)


def plan_forget_ids(
    ids: Sequence[str],
    folders: Sequence[str],
    *,
    lake: LakeSettings | Lake,
    clock: Clock = SYSTEM_CLOCK,
) -> ForgetResult:
    """Find the events of ids in the sources with these folders, without writing anything."""
    parts = open_parts(lake, clock=clock)
    erased = ErasedIds(frozenset(ids), hash_ids(pa.array(ids)))

    def attempt() -> list[Matches]:
        return [find_matches(_read_source(parts, folder), erased) for folder in folders]

    found = retry_on_conflict(attempt)
    return ForgetResult(
        lake=parts.store.root,
        status="planned",
        ids=tuple(ids),
        sources=tuple(folders),
        files=tuple(
            ForgottenFile(kind=m.kind, path=m.path, rows=c.rows, removed=c.erased)
            for matches in found
            for m, c in matches.files
        ),
        opened=sum(matches.opened for matches in found),
        remaining=tuple(path for matches in found for path in matches.unreadable),
    )


def forget(
    user: str,
    *,
    lake: str | Path | Lake,
    source: str | None = None,
    also_anonymous: bool = False,
    progress: Progress | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> ForgetResult:
    """Remove the events of a user from a lake, and suppress those that arrive later.

    Writes a receipt for each source with such events. If the process dies, the next load, sync or
    forget finishes.
    """
    progress = progress or NoProgress()
    began = clock.monotonic()
    parts = open_parts(lake, clock=clock)
    finish_requests(parts, progress)
    folders = _choose_folders(parts, user, source)
    users = find_user_ids((user,), folders, lake=parts) if also_anonymous else (user,)
    result = forget_ids(users, folders, lake=parts, progress=progress)
    return result.model_copy(update={"seconds": round(clock.monotonic() - began, 3)})


def forget_ids(
    ids: Sequence[str],
    folders: Sequence[str],
    *,
    lake: LakeSettings | Lake,
    progress: Progress,
    on_requested: Callable[[str], object] = str,
    clock: Clock = SYSTEM_CLOCK,
) -> ForgetResult:
    """Remove the events of ids from the sources with these folders, as `forget`.

    `on_requested` is called with the id of the request before anything is written; `judge_forget`
    finds out by it how a process has ended. If `progress` raises Cancelled before the first commit,
    the lake is as it was.
    """
    parts, users = open_parts(lake, clock=clock), tuple(ids)
    hashes = hash_ids(pa.array(users)).tolist()
    run_id = f"{parts.clock.time_ns():019d}"

    def add_request(listed: SuppressionList) -> SuppressionList:
        listed = listed.add_hashed(users)
        request = ErasureRequest(
            run_id=run_id,
            ids=tuple(sorted(hash_user(one, bytes.fromhex(listed.key)).hex() for one in users)),
            hashes=tuple(hashes),
            sources=tuple(folders),
            host=socket.gethostname(),
            pid=os.getpid(),
        )
        return listed.model_copy(update={"requests": (*listed.requests, request)})

    progress.step("plan", 0, 1, 0)
    on_requested(run_id)
    progress.step("request", 0, 1, 0)  # from here on, the list must be changed back by a cancel
    before, listed = change_suppression_list(parts.store, add_request)
    request = listed.requests[-1]
    try:
        progress.step("erase", 0, 0, 0)
        erased = _erase(parts, listed, request, progress)
    except Cancelled:
        _withdraw(parts, request, before, frozenset(users))
        raise
    return _make_result(parts, users, list(folders), erased)


def _withdraw(
    parts: Lake, request: ErasureRequest, before: SuppressionList, users: frozenset[str]
) -> None:
    """Remove a request of which nothing was erased, and list its users as they were before."""

    def change(listed: SuppressionList) -> SuppressionList:
        new = set(request.ids).difference(before.hashes)
        restored = users.intersection(before.users).union(listed.users)
        return listed.model_copy(
            update={
                "users": tuple(sorted(restored)),
                "hashes": tuple(one for one in listed.hashes if one not in new),
                "requests": tuple(one for one in listed.requests if one.run_id != request.run_id),
            }
        )

    change_suppression_list(parts.store, change)


def judge_forget(
    run_id: str, ids: Sequence[str], folders: Sequence[str], *, lake: LakeSettings | Lake
) -> tuple[Verdict, ForgetResult | None]:
    """Find out how a process ended that has called `forget_ids`; finish its request if it died.

    `run_id` is the id of the request. Without the request and a receipt, it counts as gone: it can
    be repeated, which erases nothing twice.
    """
    parts = open_parts(lake, make=True)
    listed = read_suppression_list(parts.store)
    requests = [one for one in listed.requests if one.run_id == run_id]
    if requests and not _is_dead(requests[0], parts.clock.now()):
        return Verdict.RUNNING, None
    if requests:
        erased = _erase(parts, listed, requests[0], NoProgress())
        return Verdict.ENDED, _make_result(parts, tuple(ids), list(folders), erased)
    key = bytes.fromhex(listed.key)
    hashed = sorted(hash_user(one, key).hex() for one in ids)
    found = {
        path: receipt
        for folder in folders
        for path, receipt in list_receipts(parts, folder, run_id)
        if sorted(receipt.ids) == hashed
    }
    if not found:
        return Verdict.GONE, None
    return Verdict.ENDED, _read_result(parts, ids, folders, found)


def list_receipts(parts: Lake, folder: str, since: str) -> Iterator[tuple[str, Receipt]]:
    """The receipts of a source, of runs with a later id than `since`, with their paths."""
    reports = parts.layout.reports
    days, _ = parts.store.names(reports)
    for day in (one for one in days if one >= f"day={run_day(since)}"):
        for found in parts.store.objects(f"{reports}/{day}/source={folder}"):
            if found.path.endswith("/receipt.json"):
                receipt = Receipt.from_json(parts.store.read(found.path))
                if receipt.run_id > since:
                    yield found.path, receipt


def _read_result(
    parts: Lake, ids: Sequence[str], folders: Sequence[str], found: Mapping[str, Receipt]
) -> ForgetResult:
    """The result of an erasure by its receipts."""
    remaining = tuple(path for one in found.values() for path in one.remaining)
    return ForgetResult(
        lake=parts.store.root,
        status="partial" if remaining else "finished",
        ids=tuple(ids),
        sources=tuple(folders),
        files=tuple(
            ForgottenFile(kind=file.kind, path=file.path, rows=file.rows, removed=file.removed)
            for one in found.values()
            for file in one.files
        ),
        receipts=tuple(found),
        remaining=remaining,
    )


def finish_requests(parts: Lake, progress: Progress) -> bool:
    """Erase the events of users whose forgetting has failed or was killed.

    Returns whether there were any.
    """
    if not parts.store.is_there:
        return False
    listed, now = read_suppression_list(parts.store), parts.clock.now()
    dead = [request for request in listed.requests if _is_dead(request, now)]
    for request in dead:
        _erase(parts, listed, request, progress)
    return bool(dead)


def _is_dead(request: ErasureRequest, now: datetime) -> bool:
    """Whether the process of a request has ended; one of another machine after a while."""
    if request.pid == NO_PID:
        return True
    if request.host == socket.gethostname():
        return request.pid == os.getpid() or not is_running(request.pid)
    return now - datetime.fromtimestamp(int(request.run_id) // 10**9, UTC) > DEAD_AFTER


def _erase(
    parts: Lake, listed: SuppressionList, request: ErasureRequest, progress: Progress
) -> list[SourceErasure]:
    """Erase the events of a request, source by source, then remove the request."""
    ids = ErasedIds(listed.match_hashed(request.ids), np.array(request.hashes, np.uint32))
    erased: list[SourceErasure] = []
    try:
        for folder in request.sources:
            erased.append(erase_source(parts, folder, ids, request.ids, progress))
    except Cancelled as problem:
        if erased:  # the next command finishes what was begun
            _set_dead(parts, request)
            raise Internal("cancelled after a commit") from problem
        raise
    except BaseException:
        _set_dead(parts, request)
        raise
    _replace_request(parts, request, ())
    return erased


def _set_dead(parts: Lake, request: ErasureRequest) -> None:
    with suppress(EventLakeError):
        _replace_request(parts, request, (request.model_copy(update={"pid": NO_PID}),))


def _replace_request(parts: Lake, request: ErasureRequest, by: tuple[ErasureRequest, ...]) -> None:
    def replace(listed: SuppressionList) -> SuppressionList:
        others = tuple(one for one in listed.requests if one.run_id != request.run_id)
        return listed.model_copy(update={"requests": (*others, *by)})

    change_suppression_list(parts.store, replace)


def _choose_folders(parts: Lake, user: str, source: str | None) -> list[str]:
    """The folders of the sources to search; raises `InvalidSettings` for bad arguments."""
    if not user:
        raise InvalidSettings("the user id is empty: give the userId of the user's events")
    if source is None:
        return list_folders(parts)
    settings = find_source(parts.store, parts.layout, source)
    if settings:
        return [settings.folder]
    if source in list_folders(parts):
        return [source]
    raise unknown_source(parts, source)


def _read_source(parts: Lake, folder: str) -> SourceFiles:
    state = find_unfinished_runs(parts.ledger(folder), parts.clock.now()).state
    return read_source_files(parts, folder, state)


def find_user_ids(
    users: Sequence[str],
    folders: Sequence[str],
    *,
    lake: LakeSettings | Lake,
    clock: Clock = SYSTEM_CLOCK,
) -> tuple[str, ...]:
    """The ids of users, then all ids that calls in the sources tie to them, sorted."""
    parts = open_parts(lake, clock=clock)
    sources = [_read_source(parts, folder) for folder in folders]
    ids, new = set(users), set(users)
    while new:
        erased = ErasedIds(frozenset(new), hash_ids(pa.array(sorted(new))))
        tied = {one for files in sources for one in _list_tied_ids(files, erased)}
        new = tied - ids
        ids |= new
    return (*users, *sorted(ids.difference(users)))


def _list_tied_ids(files: SourceFiles, ids: ErasedIds) -> Iterable[str]:
    """Yield the anonymous and previous ids of the `identify` and `alias` calls of users."""
    for one in files.list_candidates(ids):
        with suppress(EventLakeError):  # what cannot be read is reported when it is searched
            if one.kind is FileKind.TABLE:
                yield from _tied_in_table(files, one, ids)
            elif one.kind is FileKind.RAW_LOG:
                yield from _tied_in_log(files, one, ids)


def _tied_in_table(files: SourceFiles, one: UserFile, ids: ErasedIds) -> Iterable[str]:
    store, schema = files.parts.store, files.state.tables.get(one.table)
    if schema is None or schema.call not in TYING_CALLS:
        return
    with reading_parquet(store, one.path), pq.ParquetFile(store.open(one.path)) as file:
        names = [name for name in ID_COLUMNS if name in file.schema_arrow.names]
        for row in file.read(columns=names).to_pylist():
            if str(row.get("user_id")) in ids.exact:
                yield from (str(row[name]) for name in names[1:] if row[name])


def _tied_in_log(files: SourceFiles, one: UserFile, ids: ErasedIds) -> Iterable[str]:
    for block in read_blocks(files.opener(one)):
        if isinstance(block, Damage):
            return
        for line in block.split(b"\n"):
            event = read_ids(line)
            if event and event.type in TYING_CALLS and event.userId in ids.exact:
                yield from filter(None, (event.anonymousId, event.previousId))


def _make_result(
    parts: Lake, users: tuple[str, ...], folders: list[str], erased: list[SourceErasure]
) -> ForgetResult:
    remaining = tuple(path for one in erased for path in one.remaining)
    problem = next((one.message for one in erased if one.message), "")
    files = tuple(
        ForgottenFile(kind=one.kind, path=one.path, rows=one.rows, removed=one.removed)
        for source in erased
        for one in source.files
    )
    status = "partial" if remaining or problem else "finished" if files else "nothing"
    return ForgetResult(
        lake=parts.store.root,
        status=status,
        message=problem,
        ids=users,
        sources=tuple(folders),
        files=files,
        opened=sum(one.opened for one in erased),
        receipts=tuple(one.receipt for one in erased if one.receipt),
        remaining=remaining,
    )
