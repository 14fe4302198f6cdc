"""Find and remove the events of users: rows of tables, and lines of raw logs."""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventlake.kernels.lines import Damage
from eventlake.kernels.route import InvalidLine, validate_line
from eventlake.kernels.user_hashes import Hashes, hash_ids
from eventlake.model.erasure import ID_COLUMNS

_BLANK = b" \t\r"


@dataclass(frozen=True)
class ErasedIds:
    """The ids whose events are removed: exactly, and as hashes of the user index."""

    exact: Container[str]
    hashes: Hashes

    def select(self, ids: pa.Array | pa.ChunkedArray) -> pa.Array:
        """Return those of some strings that are erased, each once."""
        distinct = pc.unique(ids).cast(pa.string())
        distinct = distinct.filter(pc.greater(pc.binary_length(distinct), 0))
        likely = distinct.filter(pa.array(np.isin(hash_ids(distinct), self.hashes)))
        return pa.array([one for one in likely.to_pylist() if one in self.exact], pa.string())


def match_rows(rows: pa.Table, ids: ErasedIds) -> np.ndarray:
    """Return for each row of a table whether one of its users' ids is erased."""
    matches = np.zeros(len(rows), np.bool_)
    for name in ID_COLUMNS:
        if name in rows.column_names:
            column = rows[name].cast(pa.string())
            erased = ids.select(column)
            if len(erased):
                mask = pc.is_in(column, value_set=erased)
                matches |= mask.combine_chunks().to_numpy(zero_copy_only=False)
    return matches


@dataclass
class LineFilter:
    """Removes the lines of erased users from blocks of lines, and counts them."""

    ids: ErasedIds
    list_ids: Callable[[bytes], list[str]]
    lines: int = 0
    """Lines that are not blank."""
    removed: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """How many of the removed lines are invalid, by reason."""
    kept_ids: set[str] = field(default_factory=set)
    """The users' ids of the other lines."""
    is_damaged: bool = False
    _known: dict[str, bool] = field(default_factory=dict)

    def filter(self, blocks: Iterable[bytes | Damage]) -> Iterator[bytes]:
        """Yield blocks, each with its last line end, with an empty line for each removed one.

        So every other line keeps its number. The damage of a file ends it.
        """
        for block in blocks:
            if isinstance(block, Damage):
                self.is_damaged = True
                return
            yield b"".join(self._filter_line(line) + b"\n" for line in block.split(b"\n"))

    def _filter_line(self, line: bytes) -> bytes:
        if not line.strip(_BLANK):
            return line
        self.lines += 1
        ids = self.list_ids(line)
        if not any(map(self._is_erased, ids)):
            self.kept_ids.update(ids)
            return line
        self.removed += 1
        try:
            validate_line(line)
        except InvalidLine as invalid:
            self.reasons[invalid.reason] += 1
        return b""

    def _is_erased(self, one: str) -> bool:
        if one not in self._known:
            self._known[one] = one in self.ids.exact
        return self._known[one]
