"""Which address counts as the client's behind proxies."""

import pytest

from eventlake.collect.proxies import TrustedProxies


@pytest.mark.parametrize(
    ("names", "peer", "forwarded", "address"),
    [
        ("127.0.0.1,::1", "127.0.0.1", b"203.0.113.9", "203.0.113.9"),
        ("127.0.0.1,::1", "::1", b"2001:db8::1", "2001:db8::1"),
        ("127.0.0.1,::1", "127.0.0.1", b"", "127.0.0.1"),
        ("127.0.0.1,::1", "198.51.100.1", b"203.0.113.9", "198.51.100.1"),
        ("127.0.0.1", "127.0.0.1", b"203.0.113.9, 198.51.100.1", "198.51.100.1"),
        ("127.0.0.1, 198.51.100.0/24", "127.0.0.1", b"203.0.113.9, 198.51.100.1", "203.0.113.9"),
        ("127.0.0.1", "127.0.0.1", b"127.0.0.1", "127.0.0.1"),
        ("*", "198.51.100.1", b"203.0.113.9, 198.51.100.1", "203.0.113.9"),
        ("127.0.0.1", "127.0.0.1", b"203.0.113.9:4711", "203.0.113.9"),
        ("127.0.0.1", "127.0.0.1", b"[2001:db8::1]:4711", "2001:db8::1"),
        ("127.0.0.1", "127.0.0.1", b"<script>" + b"x" * 60_000, "127.0.0.1"),
        ("not an address", "127.0.0.1", b"203.0.113.9", "127.0.0.1"),
    ],
)
def test_the_client_is_the_last_address_that_is_not_a_trusted_proxy(
    names: str, peer: str, forwarded: bytes, address: str
) -> None:
    assert TrustedProxies(names).client_address(peer, forwarded) == address


def test_without_a_peer_address_there_is_no_client_address() -> None:
    assert TrustedProxies().client_address(None, b"203.0.113.9") is None
