"""Which sources a lake's ledgers know."""

from concurrent.futures import ThreadPoolExecutor

from eventlake.errors import InvalidSettings
from eventlake.ledger.commits import Ledger
from eventlake.model.layout import LEDGER
from eventlake.model.settings import SourceSettings
from eventlake.stores import Store

AT_ONCE = 16
"""Ledgers that are read at a time."""


def sources(store: Store) -> list[str]:
    """The folders of every source that has a ledger."""
    return store.names(LEDGER)[0]


def check_ledgers(store: Store) -> None:
    """Raise `Damaged` if a ledger of the lake has lost a commit."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in pool.map(lambda folder: Ledger(store, folder).state(), sources(store)):
            pass


def find_source(store: Store, name: str) -> SourceSettings | None:
    """The last settings of the source with an id or a slug; None if it has never landed events.

    An id goes before a slug. Two sources may have one slug, and then neither is meant by it.
    """
    known = known_sources(store)
    for field in ("source_id", "source"):
        matches = [settings for settings in known if getattr(settings, field) == name]
        if len(matches) > 1:
            ids = " and ".join(sorted(settings.source_id for settings in matches))
            raise InvalidSettings(
                f"source is {name!r}, the slug of {len(matches)} sources: give the id of one "
                f"of them, {ids}"
            )
        if matches:
            return matches[0]
    return None


def known_sources(store: Store) -> list[SourceSettings]:
    """The last settings of every source that has landed events."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(lambda folder: Ledger(store, folder).settings(), sources(store)))
    return [settings for settings in found if settings]
