"""What a commit has erased of a forgotten user."""

from enum import StrEnum
from html import escape

from pydantic import Field

from eventlake.model.values import FrozenModel

ID_COLUMNS = ("user_id", "anonymous_id", "previous_id")
"""The columns with ids of users; only the tables of alias calls have the last one."""
ID_FIELDS = ("userId", "anonymousId", "previousId")
"""The same as fields of events."""


class FileKind(StrEnum):
    """The kinds of files that have events of users."""

    TABLE = "table"
    RAW_LOG = "raw log"
    QUARANTINE = "quarantine"
    REJECTED = "rejected log"


class ErasedFile(FrozenModel):
    """A file before and after the events of a user were removed from it; rows may be lines."""

    kind: FileKind
    path: str
    """Below the lake's root, or the address of a raw log outside of the lake."""
    table: str = ""
    bytes: int
    rows: int
    sha256: str
    new_path: str = ""
    """Empty if no rows remain."""
    new_bytes: int = 0
    new_rows: int = 0
    new_sha256: str = ""
    reasons: dict[str, int] = Field(default_factory=dict)
    """How many of the removed lines were invalid, by the reason for their quarantine."""

    @property
    def removed(self) -> int:
        """The number of removed rows or lines."""
        return self.rows - self.new_rows


class Erasure(FrozenModel):
    """The files that a commit has rewritten without the events of a user."""

    ids: tuple[str, ...]
    """Keyed hashes of the user's ids, in hex; the key is with the suppression list."""
    files: tuple[ErasedFile, ...]
    unreadable: tuple[str, ...] = ()
    """Raw logs that could not be read and may have events of the user."""


class Receipt(FrozenModel):
    """The proof of an erasure; of the user it has only keyed hashes."""

    source: str
    run_id: str
    time: str
    """UTC."""
    ids: tuple[str, ...]
    rows_removed: int
    files: tuple[ErasedFile, ...]
    remaining: tuple[str, ...] = ()
    """Raw logs that may still have events of the user, because they cannot be read or changed."""

    def to_page(self) -> str:
        """The receipt as HTML."""
        facts = {
            "Source": self.source,
            "Run": self.run_id,
            "Time (UTC)": self.time,
            "Keyed hashes of the user's ids": ", ".join(self.ids),
            "Rows and lines removed": f"{self.rows_removed:,}",
            "Not erased": ", ".join(self.remaining) or "none",
        }
        head = "".join(f"<tr><th>{k}</th><td>{escape(v)}</td></tr>\n" for k, v in facts.items())
        names = ("Kind", "Removed", "File", "Rows", "Bytes", "SHA-256")
        files = "".join(map(_file_rows, self.files))
        titles = "".join(f"<th>{name}</th>" for name in names)
        return _PAGE.format(head=head, titles=titles, files=files)


def _file_rows(one: ErasedFile) -> str:
    before = (one.kind, one.removed, one.path, one.rows, one.bytes, one.sha256)
    after = ("", "", one.new_path or "(removed)", one.new_rows, one.new_bytes, one.new_sha256)
    rows = ("".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in (before, after))
    return "".join(f"<tr>{row}</tr>\n" for row in rows)


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Erasure receipt</title>
<style>body {{ font: 14px sans-serif }} th, td {{ text-align: left; padding: 2px 8px }}</style>
</head><body><h1>Erasure receipt</h1>
<table>
{head}</table>
<h2>Files, before and after</h2>
<table><tr>{titles}</tr>
{files}</table>
</body></html>
"""
