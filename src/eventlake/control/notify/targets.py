"""Which addresses notices may be sent to: none that only this machine or its cloud should see."""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import NamedTuple
from urllib.parse import urlsplit

from eventlake.errors import InvalidSettings, Unavailable

_REFUSED = tuple(
    map(
        ip_network,
        (
            "0.0.0.0/8",
            "169.254.0.0/16",  # link-local, and the metadata of virtual machines
            "100.100.100.200/32",  # the metadata of Alibaba
            "168.63.129.16/32",  # Azure's own services
            "192.0.0.192/32",  # the metadata of Oracle
            "224.0.0.0/3",  # multicast, reserved, broadcast
            "::/128",
            "fe80::/10",
            "fd00:ec2::/32",  # the metadata of virtual machines, over IPv6
            "fd20:ce::/32",  # the metadata of Google
            "ff00::/8",
        ),
    )
)
_NAT64 = ip_network("64:ff9b::/96")


class Target(NamedTuple):
    """The host, the port and the path of a URL."""

    is_https: bool
    host: str
    port: int
    path: str

    @property
    def shown(self) -> str:
        """The URL without its path, which may be a secret."""
        scheme, port = ("https", 443) if self.is_https else ("http", 80)
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}" + ("" if self.port == port else f":{self.port}")


def parse_target(name: str, url: str) -> Target:
    """The parts of a URL; raises InvalidSettings, without the URL, for one that is not allowed."""
    try:
        parsed = urlsplit(url)
        port = parsed.port
    except ValueError:
        raise InvalidSettings(f"{name} cannot be parsed as a URL") from None
    is_https, host = parsed.scheme == "https", parsed.hostname or ""
    if parsed.scheme not in ("http", "https") or not host or parsed.username is not None:
        raise InvalidSettings(f"{name} must be a URL such as https://example.com/hook")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidSettings(f"{name} must be a URL in ASCII without spaces")
    check_host(name, host)
    path = (parsed.path or "/") + (f"?{parsed.query}" if parsed.query else "")
    return Target(is_https, host, port or (443 if is_https else 80), path)


def check_host(name: str, host: str) -> None:
    """Raise InvalidSettings if a host is an address that notices are not sent to."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return  # a name: its addresses are checked when it is used
    if is_refused(address):
        raise InvalidSettings(
            f"{name} has the address {host}: link-local and metadata addresses are refused"
        )


def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host, which may be used.

    The caller connects to one of these, so that a second answer of the DNS cannot be another.
    Raises Unavailable if the host has no address, or has one that is refused.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as problem:
        reason = getattr(problem, "strerror", None) or "the name is invalid"
        raise Unavailable(f"cannot resolve {host}: {reason}") from None
    addresses = list(dict.fromkeys(str(one[4][0]) for one in found))
    for address in addresses:
        if is_refused(ip_address(address.partition("%")[0])):
            raise Unavailable(
                f"{host} has the address {address}: link-local and metadata addresses are refused"
            )
    return addresses


def is_refused(address: IPv4Address | IPv6Address) -> bool:
    """Return whether an address, or the IPv4 address within it, is refused."""
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in _NAT64:
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_refused(inner)
    return any(address in network for network in _REFUSED)
