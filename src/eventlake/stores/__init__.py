"""The one way to objects, on disk or in a bucket: obstore, with its errors in our words."""

from eventlake.stores.disk import Disk
from eventlake.stores.ranges import Range
from eventlake.stores.store import Object, Store

__all__ = ["Disk", "Object", "Range", "Store"]
