"""Reads of objects that may be corrupt; the error names the object and how to restore it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from pydantic import ValidationError

from eventlake.errors import Damaged, EventLakeError
from eventlake.model.values import FrozenModel
from eventlake.stores.store import Store

RESTORE = "restore it from a backup, or from an earlier version of it in the bucket"

V = TypeVar("V", bound=FrozenModel)


def damaged(store: Store, path: str, reason: str, remedy: str = RESTORE) -> Damaged:
    """The error for a corrupt object."""
    return Damaged(f"{store.root}/{path} is damaged ({reason}): {remedy}")


def read_value(store: Store, path: str, kind: type[V]) -> V:
    """Read a model from a JSON object; raises `Damaged` if it is invalid."""
    return parse_value(store, path, kind, store.read(path))


def parse_value(store: Store, path: str, kind: type[V], data: bytes) -> V:
    """Parse a model from the JSON of the object at `path`; raises `Damaged` if it is invalid."""
    try:
        return kind.from_json(data)
    except ValidationError as problem:
        raise damaged(store, path, problem.errors()[0]["msg"]) from problem


@contextmanager
def reading_parquet(store: Store, path: str) -> Iterator[None]:
    """Raise Arrow's errors for a corrupt Parquet file as `Damaged`."""
    import pyarrow as pa  # noqa: PLC0415 - a server reads no Parquet

    try:
        yield
    except EventLakeError:
        raise
    except (pa.ArrowException, OSError) as problem:
        raise damaged(store, path, str(problem).partition("\n")[0]) from problem
