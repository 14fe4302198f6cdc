"""Byte ranges of objects."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol, TypeVar


class Range(NamedTuple):
    """A byte range of an object."""

    path: str
    start: int
    size: int

    @property
    def end(self) -> int:
        return self.start + self.size


class Sized(Protocol):
    """Has a size in bytes."""

    @property
    def size(self) -> int: ...


T = TypeVar("T", bound=Sized)


def batch_by_size(items: Iterable[T], max_bytes: int) -> Iterator[list[T]]:
    """Batch items in order, up to `max_bytes` per batch; a larger item is a batch of its own."""
    batch: list[T] = []
    size = 0
    for item in items:
        if batch and size + item.size > max_bytes:
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += item.size
    if batch:
        yield batch
