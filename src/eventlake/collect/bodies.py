"""A request's body, decompressed within bounds."""

import zlib

from eventlake.collect.intake import mended
from eventlake.collect.limits import MAX_BODY
from eventlake.collect.refusal import Refusal, too_large

GZIP = 31


def decode_body(body: bytes, encoding: bytes) -> bytes:
    """The body as JSON text; raises a `Refusal` when it cannot be unpacked or is too large."""
    return mended(_plain(body, encoding.strip().lower()))


def _plain(body: bytes, encoding: bytes) -> bytes:
    if encoding == b"gzip":
        return _gunzipped(body)
    if encoding not in (b"", b"identity"):
        raise Refusal(400, "encoding_not_supported", "content-encoding may be gzip")
    return body


def _gunzipped(body: bytes) -> bytes:
    unzip = zlib.decompressobj(GZIP)
    try:
        plain = unzip.decompress(body, MAX_BODY + 1)
    except zlib.error as problem:
        raise Refusal(400, "not_gzip", "the body is not gzip") from problem
    if len(plain) > MAX_BODY:
        raise too_large(MAX_BODY)
    if not unzip.eof or unzip.unused_data:
        raise Refusal(400, "not_gzip", "the gzip body is cut short, or more than one")
    return plain
