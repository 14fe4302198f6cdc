"""Names of tables, columns and databases. Cached, since few names occur often."""

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

Path = tuple[str, ...]

MAX_TABLE_NAME = 127
MAX_COLUMN_NAME = 250
RESCUED = "_rescued_data"

_WORDS = re.compile(r"[A-Z0-9]+[a-z0-9]*|[a-z0-9]+")


class Naming(StrEnum):
    """How tables and the columns of properties and traits are named."""

    SEGMENT = "segment"
    WAREHOUSE = "warehouse"
    NATIVE = "native"

    @property
    def id_column(self) -> str:
        """The column of the message id."""
        return "message_id" if self is Naming.NATIVE else "id"


class Call(StrEnum):
    """The six calls of the Segment spec."""

    TRACK = "track"
    IDENTIFY = "identify"
    PAGE = "page"
    SCREEN = "screen"
    GROUP = "group"
    ALIAS = "alias"


PLURALS = {
    Call.IDENTIFY: "identifies",
    Call.PAGE: "pages",
    Call.SCREEN: "screens",
    Call.GROUP: "groups",
    Call.ALIAS: "aliases",
}

# The object whose keys have no prefix, except in native naming.
OWN_OBJECT = {
    Call.TRACK: "properties",
    Call.PAGE: "properties",
    Call.SCREEN: "properties",
    Call.IDENTIFY: "traits",
    Call.GROUP: "traits",
    Call.ALIAS: "traits",
}


def snake_case(name: str) -> str:
    """`sampleText` → `sample_text`; characters other than ASCII letters and digits are dropped."""
    return "_".join(_WORDS.findall(name)).lower()


@lru_cache(maxsize=65536)
def key_name(key: str) -> str:
    """A key of a path as part of a column name."""
    return snake_case(key) or f"field_{_digest(key)}"


@lru_cache(maxsize=65536)
def table_name(call: Call, event: str, naming: Naming) -> str:
    """The table of an event; `event`, its name, is used for track calls only."""
    name = _track_table(event, naming) if call is Call.TRACK else _call_table(call, naming)
    return shorten(name, MAX_TABLE_NAME)


def prefix_table(table: str, prefix: str) -> str:
    """A table's name with the prefix; folders and the ledger use the name without it."""
    return shorten(f"{prefix}_{table}", MAX_TABLE_NAME) if prefix else table


def _track_table(event: str, naming: Naming) -> str:
    name = snake_case(event) or f"event_{_digest(event)}"
    if naming is Naming.NATIVE or name in _call_tables(naming):
        return f"track_{name}"
    return name


@lru_cache
def _call_tables(naming: Naming) -> frozenset[str]:
    """The tables of the calls other than track."""
    return frozenset(_call_table(call, naming) for call in PLURALS)


def _call_table(call: Call, naming: Naming) -> str:
    return PLURALS[call] if naming is Naming.WAREHOUSE else call.value


def shorten(name: str, limit: int) -> str:
    """A name of at most `limit` characters; a longer one gets a digest at its end."""
    return name if len(name) <= limit else f"{name[: limit - 9]}_{_digest(name)}"


def database_name(slug: str) -> str:
    """The default catalog database of a source."""
    return re.sub(r"[^a-z0-9_]", "_", slug.lower())


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value's path in its event and its column; `exact` if the path is spelled as the column."""

    path: Path
    column: str
    exact: bool

    @property
    def dotted(self) -> str:
        return ".".join(self.path)

    @property
    def rank(self) -> tuple[bool, str]:
        """Sort key for paths that compete for a column: exact ones first, then by code point."""
        return (not self.exact, self.dotted)


@lru_cache(maxsize=262144)
def leaf(call: Call, path: Path, naming: Naming) -> Leaf:
    """The leaf of the value at `path` in an event."""
    unprefixed = naming is not Naming.NATIVE and len(path) > 1 and path[0] == OWN_OBJECT[call]
    keys = path[1:] if unprefixed else path
    column = shorten("_".join(map(key_name, keys)), MAX_COLUMN_NAME)
    return Leaf(path, column, exact="_".join(keys) == column)


def _digest(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:8]
