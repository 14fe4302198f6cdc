"""The result of a verification."""

from eventlake.model.values import FrozenModel


class TableCheck(FrozenModel):
    """One table: `found` is `expected` less `missing`, with `extra` and `doubled` on top."""

    table: str
    expected: int = 0
    found: int = 0
    missing: int = 0
    extra: int = 0
    doubled: int = 0
    misplaced: int = 0


class Verification(FrozenModel):
    """Totals of the archive and the tables, and all differences."""

    source: str
    files_read: int
    lines: int
    events: int
    landed: int
    expected: int
    tables: tuple[TableCheck, ...]
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.problems
