"""Raw logs: what a user's paths name, how a log is opened, and how it is copied into the lake."""

from eventlake.archive.addresses import (
    LAKE,
    NONE,
    PIECE,
    Holders,
    holder_of,
    is_address,
    lake_address,
    lake_holders,
    local_path,
    open_log,
    readable,
)
from eventlake.archive.find import SUFFIXES, Found, find
from eventlake.archive.keep import keep, keep_stream

__all__ = [
    "LAKE",
    "NONE",
    "PIECE",
    "SUFFIXES",
    "Found",
    "Holders",
    "find",
    "holder_of",
    "is_address",
    "keep",
    "keep_stream",
    "lake_address",
    "lake_holders",
    "local_path",
    "open_log",
    "readable",
]
