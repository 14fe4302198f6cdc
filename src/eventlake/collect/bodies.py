"""Decoding of a request's body."""

import zlib

from eventlake.collect.intake import replace_lone_surrogates
from eventlake.collect.limits import MAX_BODY_BYTES
from eventlake.collect.refusal import Refusal, too_large

GZIP_WBITS = 31


def decode_body(body: bytes, encoding: bytes) -> bytes:
    """Decompress a body, if its encoding is gzip, and replace its lone surrogates.

    Raises a 400 `Refusal` when the encoding is unknown, the gzip damaged, or the result too large.
    """
    encoding = encoding.strip().lower()
    if encoding == b"gzip":
        body = _gunzip(body)
    elif encoding not in (b"", b"identity"):
        raise Refusal(400, "encoding_not_supported", "content-encoding must be gzip or identity")
    return replace_lone_surrogates(body)


def _gunzip(body: bytes) -> bytes:
    """Decompress one gzip member, up to `MAX_BODY_BYTES`.

    Raises a 400 `Refusal` if it is damaged, truncated, too large, or followed by other data.
    """
    decompressor = zlib.decompressobj(GZIP_WBITS)
    try:
        plain = decompressor.decompress(body, MAX_BODY_BYTES + 1)
    except zlib.error as problem:
        raise Refusal(400, "not_gzip", "the body is not gzip") from problem
    if len(plain) > MAX_BODY_BYTES:
        raise too_large(MAX_BODY_BYTES)
    if not decompressor.eof or decompressor.unused_data:
        raise Refusal(400, "not_gzip", "the gzip body is truncated or has trailing data")
    return plain
