"""What people and programs may do."""

from enum import StrEnum


class Role(StrEnum):
    """Each role may do all that the one before it may."""

    VIEWER = "viewer"
    """Reads settings and history, but no event."""
    OPERATOR = "operator"
    """Starts and stops runs."""
    ADMIN = "admin"
    """Changes settings and people."""

    def may(self, needed: "Role") -> bool:
        """Return whether this role may do what needs another."""
        order = list(Role)
        return order.index(self) >= order.index(needed)


class Scope(StrEnum):
    """What a token may do."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"

    @property
    def role(self) -> Role:
        return list(Role)[list(Scope).index(self)]
