"""The suppression list of a lake: add, remove and list users."""

from collections.abc import Iterable
from pathlib import Path

from eventlake.errors import InvalidSettings
from eventlake.lakes import open_store
from eventlake.model.lake import LakeSettings
from eventlake.model.values import FrozenModel
from eventlake.secrets import Secrets
from eventlake.suppression import change_suppression_list, read_suppression_list


class SuppressionChange(FrozenModel):
    """What a command changed in a lake's suppression list."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    """Users that were on the list already."""
    listed: int
    """Users on the list now."""


class SuppressedUsers(FrozenModel):
    """The users on a lake's suppression list."""

    users: tuple[str, ...] = ()
    hashed: int = 0
    """Forgotten users, of whom the lake has only a hash."""


def suppress_users(
    users: Iterable[str],
    *,
    lake: str | Path | LakeSettings,
    dry_run: bool = False,
    secrets: Secrets | None = None,
) -> SuppressionChange:
    """Add users to the lake's suppression list; their events no longer land or are collected."""
    given = tuple(dict.fromkeys(users))
    if "" in given:
        raise InvalidSettings("a user id is empty: give the userId of the user's events")
    store = open_store(lake, make=True, secrets=secrets)
    before, after = change_suppression_list(
        store, lambda listed: listed.add(given), dry_run=dry_run
    )
    new = set(after.users).difference(before.users)
    return SuppressionChange(
        added=tuple(user for user in given if user in new),
        unchanged=tuple(user for user in given if user not in new),
        listed=len(after.users) + len(after.hashes),
    )


def unsuppress_users(
    users: Iterable[str],
    *,
    lake: str | Path | LakeSettings,
    dry_run: bool = False,
    secrets: Secrets | None = None,
) -> SuppressionChange:
    """Remove users from the lake's suppression list; raises `InvalidSettings` for unknown ones."""
    given = tuple(dict.fromkeys(users))
    _, after = change_suppression_list(
        open_store(lake, secrets=secrets), lambda listed: listed.remove(given), dry_run=dry_run
    )
    return SuppressionChange(removed=given, listed=len(after.users) + len(after.hashes))


def list_suppressed_users(
    lake: str | Path | LakeSettings, *, make: bool = False, secrets: Secrets | None = None
) -> SuppressedUsers:
    """List the users on the lake's suppression list, sorted.

    With `make`, a folder on disk need not exist.
    """
    listed = read_suppression_list(open_store(lake, make=make, secrets=secrets))
    return SuppressedUsers(users=listed.users, hashed=len(listed.hashes))
