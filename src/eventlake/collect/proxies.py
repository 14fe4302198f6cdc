"""The client's address behind proxies."""

from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

PROXIES_VARIABLE = "FORWARDED_ALLOW_IPS"
LOOPBACK = "127.0.0.1,::1"


class TrustedProxies:
    """The proxies whose `X-Forwarded-For` is trusted.

    `names` is a comma-separated list of addresses and networks, or `*` for all; entries that
    cannot be parsed are ignored.
    """

    def __init__(self, names: str = LOOPBACK) -> None:
        entries = [name.strip() for name in names.split(",")]
        self._all = "*" in entries
        self._networks = [network for name in entries if (network := _parse_network(name))]

    def client_address(self, peer: str | None, forwarded: bytes) -> str | None:
        """Return the last address in `forwarded` that is not a trusted proxy, the first if all are.

        Returns `peer` if it is not trusted itself, if `forwarded` is empty, or if the entry found
        is not an address. If all proxies are trusted, it is always the first entry.
        """
        if not peer or not forwarded or not self._trusts(peer):
            return peer
        hops = [_parse_address(hop) for hop in forwarded.decode("latin-1").split(",")]
        untrusted = (hop for hop in reversed(hops) if hop is None or not self._trusts(hop))
        return (hops[0] if self._all else next(untrusted, hops[0])) or peer

    def _trusts(self, address: str) -> bool:
        """Return whether an address is a trusted proxy.

        Text that is not an address is trusted only if all proxies are.
        """
        if self._all:
            return True
        try:
            parsed = ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self._networks)


def _parse_network(name: str) -> IPv4Network | IPv6Network | None:
    """Return an address or network, such as `10.0.0.0/8`; None for anything else."""
    try:
        return ip_network(name)
    except ValueError:
        return None


def _parse_address(text: str) -> str | None:
    """Return an IP address without its port; None for anything else."""
    text = text.strip()
    for candidate in (text, text.rpartition(":")[0].strip("[]")):
        try:
            return str(ip_address(candidate))
        except ValueError:
            continue
    return None
