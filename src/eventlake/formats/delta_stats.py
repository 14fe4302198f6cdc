"""The statistics of a data file, as the log of a Delta table has them."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from eventlake.model.commit import Bound, DataFile
from eventlake.model.schema import TableSchema
from eventlake.model.types import Type

_MILLISECOND = timedelta(milliseconds=1)


def delta_stats(file: DataFile, table: TableSchema) -> str:
    """Number of rows, null counts and bounds of a file as JSON; columns without are left out."""
    types = table.types
    known = {name: stats for name, stats in file.stats.items() if name in types}
    bounded = {name: one for name, one in known.items() if None not in one[1:]}
    stats = {
        "numRecords": file.rows,
        "minValues": {name: _least(types[name], one[1]) for name, one in bounded.items()},
        "maxValues": {name: _greatest(types[name], one[2]) for name, one in bounded.items()},
        "nullCount": {name: nulls for name, (nulls, _, _) in known.items()},
    }
    return msgspec.json.encode(stats).decode()


def _least(kind: Type, value: Bound) -> Any:
    if kind is Type.TIMESTAMP:
        return _milliseconds(_floor(_parse(value)))
    return _number(kind, value)


def _greatest(kind: Type, value: Bound) -> Any:
    """Rounded up: some readers do not know that bounds of timestamps have only milliseconds."""
    if kind is not Type.TIMESTAMP:
        return _number(kind, value)
    moment = _parse(value)
    down = _floor(moment)
    return _milliseconds(down if down == moment else down + _MILLISECOND)


def _number(kind: Type, value: Bound) -> Any:
    """A number with all its digits."""
    return msgspec.Raw(f"{Decimal(str(value)):f}".encode()) if kind is Type.DECIMAL else value


def _parse(value: Bound) -> datetime:
    return datetime.fromisoformat(str(value).removesuffix("Z"))


def _floor(moment: datetime) -> datetime:
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def _milliseconds(moment: datetime) -> str:
    return f"{moment.isoformat(timespec='milliseconds')}Z"
