"""The lake's list of sources and the names they own, in one object that is changed atomically."""

from collections.abc import Iterable

from pydantic import ValidationError

from eventlake.model.claims import Claims
from eventlake.model.layout import SOURCES
from eventlake.model.settings import SourceSettings
from eventlake.stores import Store
from eventlake.stores.damage import damaged


def check_claims(store: Store, settings: SourceSettings) -> None:
    """Refuse settings whose folder or catalog names belong to another source."""
    if store.exists(SOURCES):
        _parse(store, store.read(SOURCES)).with_source(settings)


def claim(store: Store, settings: SourceSettings) -> None:
    """Make the folder and names of `settings` this source's for good, or refuse.

    Called right before a commit: from then on no other source can commit under these names.
    """

    def add(known: bytes | None) -> bytes | None:
        before = Claims() if known is None else _parse(store, known)
        after = before.with_source(settings)
        return after.to_json() if after != before else None

    store.update(SOURCES, add)


def _parse(store: Store, data: bytes) -> Claims:
    try:
        return Claims.from_json(data)
    except ValidationError as problem:
        reason = problem.errors()[0]["msg"]
        raise damaged(store, SOURCES, reason, "`eventlake repair` writes it again") from problem


def rebuild_claims(store: Store, history: Iterable[SourceSettings]) -> None:
    """Write the list again from the settings of all commits, those of each source in order."""
    claims = Claims()
    for settings in history:
        claims = claims.with_source(settings)
    store.write(SOURCES, claims.to_json())
