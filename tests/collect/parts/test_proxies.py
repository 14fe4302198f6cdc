"""Whose word about the client's address is taken."""

import pytest

from eventlake.collect.proxies import Proxies


@pytest.mark.parametrize(
    ("names", "peer", "forwarded", "client"),
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
def test_the_client_behind_proxies(names: str, peer: str, forwarded: bytes, client: str) -> None:
    assert Proxies(names).client(peer, forwarded) == client


def test_a_peer_without_an_address_has_none() -> None:
    assert Proxies().client(None, b"203.0.113.9") is None
