"""The client's address behind proxies."""

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

VARIABLE = "FORWARDED_ALLOW_IPS"
LOOPBACK = "127.0.0.1,::1"


class Proxies:
    """The proxies whose `X-Forwarded-For` is believed: addresses, networks, or `*` for all."""

    def __init__(self, names: str = LOOPBACK) -> None:
        listed = [name.strip() for name in names.split(",")]
        self._all = "*" in listed
        self._networks = [network for name in listed if (network := _network(name))]

    def client(self, peer: str | None, forwarded: bytes) -> str | None:
        """The address nearest to us that is no known proxy's; the peer's own if none is given."""
        if not peer or not forwarded or not self._trusts(peer):
            return peer
        hops = [_address(hop) for hop in forwarded.decode("latin-1").split(",")]
        return self._nearest(hops) or peer

    def _nearest(self, hops: Sequence[str | None]) -> str | None:
        if self._all:
            return hops[0]
        for hop in reversed(hops):
            if hop is None or not self._trusts(hop):
                return hop
        return hops[0]

    def _trusts(self, address: str) -> bool:
        if self._all:
            return True
        try:
            parsed = ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self._networks)


def _network(name: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(name)
    except ValueError:
        return None


def _address(text: str) -> str | None:
    """An address without its port; None when it is something else."""
    text = text.strip()
    for candidate in (text, text.rpartition(":")[0].strip("[]")):
        try:
            return str(ip_address(candidate))
        except ValueError:
            continue
    return None
