"""The table formats of lakes."""

from eventlake.formats.parquet import ParquetFormat
from eventlake.model.lake import LakeSettings
from eventlake.ports import TableFormat
from eventlake.stores import Store


def make_format(_: LakeSettings, store: Store) -> TableFormat:
    """The format of a lake's tables; there is only Parquet."""
    return ParquetFormat(store)
