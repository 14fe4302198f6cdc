"""The suppressed users of a lake, whose events neither the collector stores nor a run lands."""

import secrets
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from eventlake.errors import InvalidSettings
from eventlake.model.layout import SUPPRESSION
from eventlake.model.values import FrozenModel
from eventlake.stores import Store
from eventlake.stores.damage import parse_value

KEY_BYTES = 32
HASH_BYTES = 16


@dataclass(frozen=True)
class HashedUsers:
    """A set of users of which some are known by id, and others only by a keyed hash."""

    users: frozenset[str]
    hashes: frozenset[bytes]
    key: bytes

    def __contains__(self, user: object) -> bool:
        if not isinstance(user, str):
            return False
        return user in self.users or hash_user(user, self.key) in self.hashes


class ErasureRequest(FrozenModel):
    """A user that is being forgotten; a later command finishes it if its own process has died."""

    run_id: str
    ids: tuple[str, ...]
    """Keyed hashes of the user's ids, in hex."""
    hashes: tuple[int, ...]
    """Their hashes in the user index."""
    sources: tuple[str, ...]
    """Folders of the sources."""
    host: str
    pid: int


class SuppressionList(FrozenModel):
    """A lake's suppression list as it is stored."""

    users: tuple[str, ...] = ()
    """Ids, sorted."""
    hashes: tuple[str, ...] = ()
    """Keyed hashes of forgotten users, in hex: the lake must not have their ids anywhere."""
    key: str = ""
    """The key of the hashes in hex, random for each lake."""
    requests: tuple[ErasureRequest, ...] = ()
    """Users whose events are not all erased yet."""

    def matcher(self, more: frozenset[str] = frozenset()) -> Container[str]:
        """The set of suppressed users, with `more`; a frozenset unless there are hashes."""
        users = more.union(self.users)
        if not self.hashes:
            return users
        hashes = frozenset(map(bytes.fromhex, self.hashes))
        return HashedUsers(users, hashes, bytes.fromhex(self.key))

    def add(self, users: Iterable[str]) -> "SuppressionList":
        """Add users by id; those that are listed by hash stay without their id."""
        listed = self.matcher()
        new = {user for user in users if user not in listed}
        return self.model_copy(update={"users": tuple(sorted(new.union(self.users)))})

    def add_hashed(self, users: Iterable[str]) -> "SuppressionList":
        """Add users by their hash, and remove their ids from the list."""
        key, forgotten = self.key or secrets.token_hex(KEY_BYTES), set(users)
        hashes = {hash_user(user, bytes.fromhex(key)).hex() for user in forgotten}
        return self.model_copy(
            update={
                "users": tuple(user for user in self.users if user not in forgotten),
                "hashes": tuple(sorted(hashes.union(self.hashes))),
                "key": key,
            }
        )

    def match_hashed(self, hashes: Iterable[str]) -> HashedUsers:
        """The set of the ids with these keyed hashes, in hex."""
        return HashedUsers(
            frozenset(), frozenset(map(bytes.fromhex, hashes)), bytes.fromhex(self.key)
        )

    def remove(self, users: Iterable[str]) -> "SuppressionList":
        """Remove users, by id or by hash; raises `InvalidSettings` if one is not listed."""
        removed, listed = set(users), self.matcher()
        if unknown := sorted(user for user in removed if user not in listed):
            raise InvalidSettings(
                f"not on the suppression list: {', '.join(unknown)}; nothing was removed"
            )
        key = bytes.fromhex(self.key)
        hashes = {hash_user(user, key).hex() for user in removed} if self.hashes else set[str]()
        return self.model_copy(
            update={
                "users": tuple(user for user in self.users if user not in removed),
                "hashes": tuple(one for one in self.hashes if one not in hashes),
            }
        )


def hash_user(user: str, key: bytes) -> bytes:
    """The keyed hash of a user's id."""
    return blake2b(user.encode(errors="surrogatepass"), key=key, digest_size=HASH_BYTES).digest()


def read_suppression_list(store: Store) -> SuppressionList:
    """Read the lake's list, which is empty if there is none; raises `Damaged` for a corrupt one."""
    return _parse(store, store.read_if_exists(SUPPRESSION) if store.is_there else None)


def change_suppression_list(
    store: Store, change: Callable[[SuppressionList], SuppressionList], *, dry_run: bool = False
) -> tuple[SuppressionList, SuppressionList]:
    """Replace the lake's list atomically with what `change` returns; return the old and the new.

    A dry run writes nothing.
    """
    before = after = SuppressionList()
    if dry_run:
        before = read_suppression_list(store)
        return before, change(before)

    def replace(data: bytes | None) -> bytes | None:
        nonlocal before, after
        before = _parse(store, data)
        after = change(before)
        return after.to_json() if after != before else None

    store.update(SUPPRESSION, replace)
    return before, after


def _parse(store: Store, data: bytes | None) -> SuppressionList:
    if data is None:
        return SuppressionList()
    return parse_value(store, SUPPRESSION, SuppressionList, data)


def read_suppressed_users(path: Path) -> frozenset[str]:
    """Return the user ids of a suppression file, one a line, exactly as they are written there.

    Spaces and every other character count: only `\\n` and `\\r\\n` end a line. Raises
    `InvalidSettings` for a file that is not UTF-8.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidSettings(f"{path} is not UTF-8: it should have one user id a line") from None
    return frozenset(line.removesuffix("\r") for line in text.split("\n")) - {""}
