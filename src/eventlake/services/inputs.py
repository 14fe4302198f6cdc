"""What a load reads, from what a user names: stores, sources, pipes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from eventlake import archive
from eventlake.errors import EventLakeError, InvalidSettings
from eventlake.lakes import open_store
from eventlake.ledger import sources
from eventlake.model.commit import Input
from eventlake.model.layout import LOGS
from eventlake.model.settings import SourceSettings
from eventlake.ports import Progress
from eventlake.stores import Store


def check_source(store: Store, settings: SourceSettings) -> None:
    """Refuse a source of which the lake has neither events nor raw logs."""
    known = {*sources(store), *store.names(LOGS)[0]}
    if settings.folder not in known:
        names = ", ".join(sorted(known)) or "none yet"
        raise InvalidSettings(
            f"there is no source {settings.source!r} in this lake; known: {names}"
        )


def archived_days(store: Store, folder: str) -> list[str]:
    """The day folders of an archive; what a collector is still writing is beside them."""
    days, _ = store.names(folder)
    return [archive.lake_address(f"{folder}/{day}") for day in days if not day.startswith(".")]


def holders_of(paths: Sequence[str | Path], own: Store) -> dict[str, Store]:
    """The buckets that logs are loaded from, and the lake."""
    given = {archive.holder_of(str(path)) for path in paths if archive.is_address(str(path))}
    others = {root: open_store(root) for root in given if root != own.root}
    return {**archive.lake_holders(own), **others}


def with_streams(
    found: archive.Found, store: Store, folder: str, progress: Progress
) -> archive.Found:
    """Copy the pipes among the inputs into the archive; the copies are inputs then."""
    if not found.streams:
        return found
    progress.step("archive", 0, 1, 0)
    copies = {path: archive.keep_stream(path, store, folder) for path in found.streams}
    inputs = {one.uri: one for one in (*found.inputs, *copies.values()) if one}
    empty = tuple(_stream_name(path) for path, copy in copies.items() if copy is None)
    return replace(
        found,
        inputs=tuple(inputs[uri] for uri in sorted(inputs)),
        without_logs=found.without_logs + empty,
    )


@contextmanager
def naming_streams(found: archive.Found, source: str) -> Iterator[None]:
    """Add to an error that what came through a pipe, and cannot come again, is kept."""
    try:
        yield
    except EventLakeError as problem:
        if not found.streams:
            raise
        raise type(problem)(
            f"{problem}; what came through the pipe is in the lake's archive, and "
            f"`eventlake sync --source {source}` lands it"
        ) from problem


def _stream_name(path: str) -> str:
    return "standard input" if path == "-" else path


def without_logs(found: archive.Found) -> tuple[str, ...]:
    if not found.without_logs:
        return ()
    suffixes = ", ".join(archive.SUFFIXES)
    return (f"no raw logs ({suffixes}) in {', '.join(found.without_logs)}",)


def in_lake(
    inputs: Sequence[Input], store: Store, folder: str, holders: archive.Holders
) -> tuple[Input, ...]:
    """Logs that a cluster sees: what is not in the lake's bucket is copied into its archive."""
    there = [one for one in inputs if one.uri.startswith(archive.LAKE)]
    copied = archive.keep((one for one in inputs if one not in there), store, folder, holders)
    return tuple(sorted((*there, *copied), key=lambda one: one.uri))
