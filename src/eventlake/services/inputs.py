"""The inputs of a load, from the paths or the source that a user names."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from eventlake import archive
from eventlake.errors import EventLakeError, NotFound
from eventlake.lake import Lake
from eventlake.ledger import list_ledgers
from eventlake.model.commit import Input
from eventlake.model.layout import LOGS, archive_path
from eventlake.model.settings import SourceSettings
from eventlake.ports import Progress
from eventlake.stores import Store


def check_source(lake: Lake, settings: SourceSettings) -> None:
    """Raise `NotFound` if the lake has neither a ledger nor an archive of the source."""
    if _source_folders(lake).isdisjoint(archive_names(settings)):
        raise unknown_source(lake, settings.source)


def archive_names(settings: SourceSettings) -> tuple[str, ...]:
    """The names that the source's folders may have.

    Segment writes raw logs below the source's id, also where tables are below its slug.
    """
    return settings.folder, settings.table_folder, settings.source_id


def _source_folders(lake: Lake) -> set[str]:
    landed = {ledger.folder for ledger in list_ledgers(lake.store, lake.layout)}
    return landed.union(lake.store.names(LOGS)[0])


def unknown_source(lake: Lake, source: str) -> NotFound:
    """The error for a source that the lake does not have, with those that it has."""
    names = ", ".join(sorted(_source_folders(lake))) or "none yet"
    return NotFound(f"there is no source {source!r} in this lake; known: {names}")


def list_archive_days(store: Store, settings: SourceSettings) -> list[str]:
    """List the addresses of the source's day folders in the archive, without hidden folders."""
    folders = dict.fromkeys(map(archive_path, archive_names(settings)))
    days = [f"{folder}/{day}" for folder in folders for day in store.names(folder)[0]]
    shown = [day for day in days if not day.rpartition("/")[2].startswith(".")]
    return [archive.lake_address(f"{day}/") for day in shown]


def copy_streams(
    listing: archive.InputListing, lake: Lake, folder: str, progress: Progress
) -> archive.InputListing:
    """Copy the pipes of a listing into the archive, and list the copies as inputs."""
    if not listing.streams:
        return listing
    progress.step("archive", 0, 1, 0)
    copies = {
        path: archive.copy_stream(path, lake.store, folder, lake.clock) for path in listing.streams
    }
    inputs = {one.uri: one for one in (*listing.inputs, *copies.values()) if one}
    empty = tuple(
        "standard input" if path == "-" else path for path, copy in copies.items() if copy is None
    )
    return replace(
        listing,
        inputs=tuple(inputs[uri] for uri in sorted(inputs)),
        without_logs=listing.without_logs + empty,
    )


@contextmanager
def mention_archived_streams(listing: archive.InputListing, source: str) -> Iterator[None]:
    """Add to an error that the data of a pipe, which cannot be read again, is in the archive."""
    try:
        yield
    except EventLakeError as problem:
        if not listing.streams:
            raise
        raise type(problem)(
            f"{problem}; the data of the pipe is in the lake's archive: "
            f"`eventlake sync --source {source}` loads it"
        ) from problem


def no_logs_warnings(listing: archive.InputListing) -> tuple[str, ...]:
    """A warning that names the paths without raw logs, if there are any."""
    if not listing.without_logs:
        return ()
    suffixes = ", ".join(archive.SUFFIXES)
    return (f"no raw logs ({suffixes}) in {', '.join(listing.without_logs)}",)


def copy_into_lake(
    inputs: Sequence[Input], store: Store, folder: str, stores: archive.InputStores
) -> tuple[Input, ...]:
    """Copy inputs outside the lake into its archive, where any job can read them."""
    inside = [one for one in inputs if one.uri.startswith(archive.LAKE)]
    outside = (one for one in inputs if one not in inside)
    copies = archive.copy_inputs(outside, store, folder, stores)
    return tuple(sorted((*inside, *copies), key=lambda one: one.uri))
