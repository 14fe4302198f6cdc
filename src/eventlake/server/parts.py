"""The parts of a server, which several servers on one database can share among them."""

from collections.abc import Set
from enum import StrEnum

from eventlake.errors import InvalidSettings


class Part(StrEnum):
    """What a server does."""

    COLLECTOR = "collector"
    """Accepts events."""
    API = "api"
    """Serves the API."""
    WORKER = "worker"
    """Schedules and executes runs."""


ALL_PARTS = frozenset(Part)


def parse_parts(text: str) -> Set[Part]:
    """The parts in a list with commas; all of them for an empty one."""
    words = {word.strip() for word in text.split(",") if word.strip()}
    if unknown := sorted(words - set(Part)):
        raise InvalidSettings(f"only is {unknown[0]!r}: choose from {', '.join(Part)}")
    return frozenset(map(Part, words)) or ALL_PARTS
