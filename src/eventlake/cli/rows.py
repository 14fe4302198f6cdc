"""Rows as exact text: JSON, JSON lines, CSV."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import msgspec
    import pyarrow as pa

BATCH = 10_000

_NEEDS_QUOTES = re.compile(r'[",\r\n]|^$')


class Form(StrEnum):
    """How an answer is printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def to_json(value: object) -> str:
    """One JSON value: decimals digit for digit, moments in ISO form."""
    return _encoder().encode(value).decode()


def to_text(value: object) -> str:
    """A value as a cell holds it: as in JSON, without quotes around it."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    text = str(value) if isinstance(value, float) else to_json(value)
    return text[1:-1] if text.startswith('"') else text


def rows_of(table: "pa.Table") -> Iterator[tuple[Any, ...]]:
    """The rows of an Arrow table, a batch in memory at a time."""
    for batch in table.to_batches(max_chunksize=BATCH):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def objects_of(table: "pa.Table") -> Iterator[dict[str, Any]]:
    """The rows as objects; of columns with one name the later ones are numbered."""
    names = unique(table.column_names)
    return (dict(zip(names, row, strict=True)) for row in rows_of(table))


def records(found: "pa.Table | Iterable[Mapping[str, Any]]") -> list[dict[str, Any]]:
    """Rows as objects of text; bytes that are no UTF-8 are spelt out."""
    rows = found.to_pylist() if hasattr(found, "to_pylist") else found
    return [{key: _decoded(value) for key, value in row.items()} for row in rows]


def unique(names: Sequence[str]) -> list[str]:
    taken: dict[str, None] = {}
    for name in names:
        tries = (name if n == 1 else f"{name}_{n}" for n in count(1))
        taken[next(free for free in tries if free not in taken)] = None
    return list(taken)


def csv_lines(table: "pa.Table") -> Iterator[str]:
    """CSV with a header; null is an empty cell, an empty string is quoted."""
    yield ",".join(map(_cell, table.column_names))
    for row in rows_of(table):
        yield ",".join(map(_cell, row))


def json_lines(table: "pa.Table") -> Iterator[str]:
    return map(to_json, objects_of(table))


def _decoded(value: object) -> object:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value


def _cell(value: object) -> str:
    if value is None:
        return ""
    text = to_text(value)
    return '"' + text.replace('"', '""') + '"' if _NEEDS_QUOTES.search(text) else text


@cache
def _encoder() -> "msgspec.json.Encoder":
    import msgspec

    return msgspec.json.Encoder(enc_hook=_plain, decimal_format="number")


def _plain(value: Any) -> object:
    """What msgspec does not know: pydantic's values, paths, Arrow's intervals."""
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else str(value)
