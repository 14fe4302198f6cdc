"""The table formats of lakes."""

from collections.abc import Mapping
from pkgutil import resolve_name
from typing import NamedTuple

from eventlake.errors import InvalidSettings
from eventlake.model.lake import LakeSettings
from eventlake.ports import TableFormat
from eventlake.stores import Store


class RegisteredFormat(NamedTuple):
    """The class of a format, and the extra to install for it."""

    path: str
    extra: str = ""


FORMATS: Mapping[str, RegisteredFormat] = {
    "parquet": RegisteredFormat("eventlake.formats.parquet:ParquetFormat"),
    "delta": RegisteredFormat("eventlake.formats.delta:DeltaFormat", extra="delta"),
}


def make_format(settings: LakeSettings, store: Store) -> TableFormat:
    """The format of a lake's tables; raises InvalidSettings if its extra is missing."""
    path, extra = FORMATS[settings.format]
    try:
        table_format: TableFormat = resolve_name(path)(store)
    except ModuleNotFoundError as problem:
        raise InvalidSettings(
            f"format is {settings.format!r}, which needs {problem.name}: "
            f"pip install 'eventlake[{extra}]'"
        ) from problem
    return table_format
