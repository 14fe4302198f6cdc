"""Inputs, the files with raw logs: find them, open them, copy them into the lake's archive."""

from eventlake.archive.addresses import (
    LAKE,
    NO_STORES,
    READ_BYTES,
    InputStores,
    bucket_address,
    display_address,
    is_address,
    lake_address,
    lake_input_stores,
    lake_path,
    local_path,
    locate_input,
    object_address,
    open_input,
)
from eventlake.archive.copy import copy_inputs, copy_stream, day_folder
from eventlake.archive.find import SUFFIXES, InputListing, find_inputs, find_lost

__all__ = [
    "LAKE",
    "NO_STORES",
    "READ_BYTES",
    "SUFFIXES",
    "InputListing",
    "InputStores",
    "bucket_address",
    "copy_inputs",
    "copy_stream",
    "day_folder",
    "display_address",
    "find_inputs",
    "find_lost",
    "is_address",
    "lake_address",
    "lake_input_stores",
    "lake_path",
    "local_path",
    "locate_input",
    "object_address",
    "open_input",
]
