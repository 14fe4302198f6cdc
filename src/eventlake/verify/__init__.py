"""Verification of a lake: reads its archive again and compares it with its tables.

This is a second implementation and shares no code with loading, so that a bug there shows here. The
ids and partitions of events are held in a DuckDB database, which spills to disk.
"""

from eventlake.verify.catalog import Registration
from eventlake.verify.files import LakeFiles, Prefixes
from eventlake.verify.result import TableCheck, Verification
from eventlake.verify.run import verify

__all__ = ["LakeFiles", "Prefixes", "Registration", "TableCheck", "Verification", "verify"]
