"""A second opinion on a lake: its archive read again, by other code, and compared with its tables.

Nothing that lands events is used here, so that a mistake there cannot hide itself. What is kept of
an event is its id and place, in a database that goes to disk when it is large.
"""

from eventlake.verify.catalog import Registration
from eventlake.verify.files import LakeFiles
from eventlake.verify.result import TableCheck, Verification
from eventlake.verify.spine import verify

__all__ = ["LakeFiles", "Registration", "TableCheck", "Verification", "verify"]
