"""Claims of sources on folders and catalog names, in one object that is changed atomically."""

from collections.abc import Iterable

from pydantic import ValidationError

from eventlake.model.claims import Claims
from eventlake.model.layout import Layout
from eventlake.model.settings import SourceSettings
from eventlake.stores import Store
from eventlake.stores.damage import damaged


def check_claims(store: Store, layout: Layout, settings: SourceSettings) -> None:
    """Raise `InvalidSettings` if the folder or catalog names belong to another source."""
    data = store.read_if_exists(layout.sources)
    if data is not None:
        _parse(store, layout, data).with_source(settings)


def have_same_claims(before: SourceSettings, after: SourceSettings) -> bool:
    """Whether two settings of a source claim the same folders and names."""
    return Claims().with_source(before) == Claims().with_source(after)


def claim(store: Store, layout: Layout, settings: SourceSettings) -> None:
    """Claim the folder and catalog names of `settings` for this source, for good.

    Called right before a commit, so that no other source can commit under these names. Raises
    `InvalidSettings` if another source has claimed one of them.
    """

    def add(data: bytes | None) -> bytes | None:
        before = Claims() if data is None else _parse(store, layout, data)
        after = before.with_source(settings)
        return after.to_json() if after != before else None

    store.update(layout.sources, add)


def _parse(store: Store, layout: Layout, data: bytes) -> Claims:
    try:
        return Claims.from_json(data)
    except ValidationError as problem:
        reason, remedy = problem.errors()[0]["msg"], "`eventlake repair` writes it again"
        raise damaged(store, layout.sources, reason, remedy) from problem


def rebuild_claims(store: Store, layout: Layout, history: Iterable[SourceSettings]) -> None:
    """Write the claims anew from the settings of all commits, in order within each source."""
    claims = Claims()
    for settings in history:
        claims = claims.with_source(settings)
    store.write(layout.sources, claims.to_json())
