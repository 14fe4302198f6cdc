"""Objects on disk or in a bucket, through obstore, with its errors as EventLake's errors."""

from eventlake.stores.disk import Disk
from eventlake.stores.ranges import Range
from eventlake.stores.store import Object, Store

__all__ = ["Disk", "Object", "Range", "Store"]
