"""The sources of a lake, by its ledgers."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from eventlake.errors import InvalidSettings
from eventlake.ledger.commits import Ledger
from eventlake.model.layout import Layout
from eventlake.model.settings import (
    SEGMENT_NAMES,
    SourceSettings,
    source_settings,
    translate_names,
)
from eventlake.stores import Store

MAX_REQUESTS = 16
"""Ledgers that are read in parallel."""


def list_ledgers(store: Store, layout: Layout) -> list[Ledger]:
    """List the ledgers of all sources."""
    folders, _ = store.names(layout.ledger)
    return [Ledger(store, layout, folder) for folder in folders]


def find_source(store: Store, layout: Layout, name: str) -> SourceSettings | None:
    """The last settings of the source with an id or a slug; None if it has never landed events.

    Ids take precedence. Raises `InvalidSettings` for a slug that several sources share.
    """
    return _choose_source(list_sources(store, layout), name)


def _choose_source(sources: list[SourceSettings], name: str) -> SourceSettings | None:
    for field in ("source_id", "source"):
        matches = [settings for settings in sources if getattr(settings, field) == name]
        if len(matches) > 1:
            ids = " and ".join(sorted(settings.source_id for settings in matches))
            raise InvalidSettings(
                f"source is {name!r}, the slug of {len(matches)} sources: use one of the ids {ids}"
            )
        if matches:
            return matches[0]
    return None


def find_folder(store: Store, layout: Layout, folder: str) -> str:
    """The folder of the ledger of the source whose tables are in `folder`, which is the default."""
    ledgers = {ledger.folder for ledger in list_ledgers(store, layout)}
    if folder in ledgers:
        return folder
    moved = (one.folder for one in list_sources(store, layout) if one.table_folder == folder)
    return next(moved, folder)


def resolve_source(store: Store, layout: Layout, source: str, **changes: object) -> SourceSettings:
    """Return the settings of a source's last load, or the defaults, with `changes` applied.

    `source` is its slug or its id; with a `source_id` it is the slug of that source. Changes that
    are None are ignored. Raises `InvalidSettings` when `source` and `source_id` contradict. Lost
    last commits are not noticed: the caller reads the state after it.
    """
    changes = translate_names(changes, SEGMENT_NAMES)
    name = str(changes.get("source_id") or source)
    sources = _map_ledgers(Ledger.peek_settings, store, layout) if store.is_there else []
    last = _choose_source(sources, name)
    if last and source not in (last.source, last.source_id):
        raise InvalidSettings(
            f"source is {source!r}, and {last.source_id} is the id of {last.source}: "
            "leave one of the two out"
        )
    settings = last.model_dump() if last else {"source": source}
    return source_settings(**settings | {k: v for k, v in changes.items() if v is not None})


def list_sources(store: Store, layout: Layout) -> list[SourceSettings]:
    """List the last settings of every source that has landed events."""
    return _map_ledgers(Ledger.read_settings, store, layout)


def _map_ledgers(
    read: Callable[[Ledger], SourceSettings | None], store: Store, layout: Layout
) -> list[SourceSettings]:
    with ThreadPoolExecutor(MAX_REQUESTS) as pool:
        return [settings for settings in pool.map(read, list_ledgers(store, layout)) if settings]
