"""The state of a source after its commits: what a plan needs, in bounded size where possible."""

from base64 import b64decode, b64encode
from bisect import bisect_left
from collections.abc import Iterable
from hashlib import blake2b
from itertools import chain
from typing import Any, Self

from pydantic import Field, field_serializer, field_validator

from eventlake.model.commit import Commit, IdFile, Input
from eventlake.model.schema import TableSchema
from eventlake.model.settings import SourceSettings
from eventlake.model.types import Type
from eventlake.model.values import FrozenModel

Pins = dict[str, dict[str, Type]]
"""Types that the user has set, by table and column."""

DIGEST_BYTES = 12
"""Long enough that digests of a lake's inputs do not collide."""


class Manifest(FrozenModel):
    """An object that lists the files added and removed by the commits `first` to `last`."""

    first: int
    last: int
    path: str


class State(FrozenModel):
    """The state of a source after the commit `sequence`."""

    sequence: int = 0
    settings: SourceSettings | None = None
    inputs: bytes = b""
    """Digests of the loaded inputs, sorted and joined: a set would take long to build."""
    tables: dict[str, TableSchema] = Field(default_factory=dict)
    ids: tuple[IdFile, ...] = ()
    retired: dict[str, str] = Field(default_factory=dict)
    """Index files that are no longer read, with the run that replaced them."""
    retyped: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """By table, the columns whose type was changed, so that older files may have another."""
    runs: dict[str, int] = Field(default_factory=dict)
    """The sequence of each recent run."""
    pinned: Pins = Field(default_factory=dict)
    """By table, the types that the user has set with `retype`."""
    manifests: tuple[Manifest, ...] = ()
    """The manifests of the commits up to the last snapshot."""
    format: str = "parquet"
    """The format of the tables."""
    kept_files: dict[str, str] = Field(default_factory=dict)
    """Removed data files that stay in storage for a while, with the run that removed them."""

    @field_serializer("inputs", when_used="json")
    def _encode_inputs(self, inputs: bytes) -> str:
        return b64encode(inputs).decode()

    @field_validator("inputs", mode="before")
    @classmethod
    def _decode_inputs(cls, value: Any) -> Any:
        return b64decode(value, validate=True) if isinstance(value, str) else value

    def apply_commits(self, commits: Iterable[tuple[int, Commit]], recent_runs: int) -> Self:
        """Return the state after further commits, given in order with their sequences.

        It has the sequences of the last `recent_runs` runs; those of older runs are in manifests.
        """
        state, inputs, tables, runs = self, set[bytes](), dict(self.tables), dict(self.runs)
        loaded_before = self.inputs
        for sequence, commit in commits:
            if commit.is_whole:
                loaded_before = b""
                inputs.clear()
                tables.clear()
            rewritten = (one.input for one in commit.rewrites if one.input)
            loaded = chain(commit.inputs, rewritten)
            inputs.update(digest for one in loaded for digest in digests(one))
            for table in commit.tables:
                # A table exists from its first row: not while all its events were duplicates,
                # suppressed or skipped.
                if table.dropped:
                    tables.pop(table.table.name, None)
                elif table.adds or table.adopted or table.table.name in tables:
                    tables[table.table.name] = table.table
            runs[commit.run_id] = sequence
            state = state._update_index(commit).model_copy(
                update={
                    "sequence": sequence,
                    "settings": commit.settings,
                    "retyped": {} if commit.is_whole else _add_retyped(state.retyped, commit),
                    "pinned": _apply_pins(state.pinned, commit),
                    "format": commit.format,
                    "kept_files": _update_kept_files(state.kept_files, commit),
                }
            )
        changes = {
            "inputs": _insert_digests(loaded_before, inputs),
            "tables": tables,
            "runs": _keep_last(runs, recent_runs),
        }
        return state.model_copy(update=changes)

    def _update_index(self, commit: Commit) -> Self:
        replaced = {path for merge in commit.merges for path in merge.replaces}
        if commit.is_whole:
            replaced |= {file.path for file in self.ids}
        remaining = leave_out(commit.removed_ids, self.ids)
        remaining = tuple(file for file in remaining if file.path not in replaced)
        ids = (*remaining, *(merge.file for merge in commit.merges), *commit.ids)
        unused = replaced | (_removed_id_files(self.ids) - _removed_id_files(ids))
        retired = self.retired | dict.fromkeys(sorted(unused), commit.run_id)
        for path in commit.deletes:
            retired.pop(path, None)
        return self.model_copy(update={"ids": ids, "retired": retired})

    def has_loaded(self, one: Input) -> bool:
        """Whether an input, or the file that it is a copy of, was loaded."""
        return any(_has_digest(self.inputs, digest) for digest in digests(one))


def _find_digest(packed: bytes, digest: bytes) -> int:
    """The offset of a digest among sorted and joined ones, or where it would be inserted."""
    count = len(packed) // DIGEST_BYTES
    at = bisect_left(
        range(count), digest, key=lambda n: packed[n * DIGEST_BYTES : (n + 1) * DIGEST_BYTES]
    )
    return at * DIGEST_BYTES


def _has_digest(packed: bytes, digest: bytes) -> bool:
    at = _find_digest(packed, digest)
    return packed[at : at + DIGEST_BYTES] == digest


def _insert_digests(packed: bytes, digests: Iterable[bytes]) -> bytes:
    """Sorted and joined digests with further ones, each once."""
    parts, end = [], 0
    for digest in sorted(digests):
        if not _has_digest(packed, digest):
            at = _find_digest(packed, digest)
            parts += [packed[end:at], digest]
            end = at
    return b"".join((*parts, packed[end:]))


def _add_retyped(before: dict[str, tuple[str, ...]], commit: Commit) -> dict[str, tuple[str, ...]]:
    added = {one.table.name: [c.name for c in one.retyped] for one in commit.tables if one.retyped}
    return before | {
        table: tuple(sorted({*before.get(table, ()), *names})) for table, names in added.items()
    }


def _update_kept_files(before: dict[str, str], commit: Commit) -> dict[str, str]:
    if not (commit.keeps_removed or commit.deletes):
        return before
    added = sorted(commit.removed_paths) if commit.keeps_removed else ()
    kept = before | dict.fromkeys(added, commit.run_id)
    return {path: run for path, run in kept.items() if path not in commit.deletes}


def _removed_id_files(files: Iterable[IdFile]) -> set[str]:
    return {path for file in files for path in file.without}


def leave_out(removed: Iterable[IdFile], files: tuple[IdFile, ...]) -> tuple[IdFile, ...]:
    """The index files without the removed ids; those of other times stay as they are."""
    for ids in removed:
        files = tuple(
            file.model_copy(update={"without": (*file.without, ids.path)})
            if file.first <= ids.last and ids.first <= file.last
            else file
            for file in files
        )
    return files


def _apply_pins(before: Pins, commit: Commit) -> Pins:
    """The pinned types after a commit; those of dropped tables are dropped too."""
    dropped = {one.table.name for one in commit.tables if one.dropped}
    pins = {table: pins for table, pins in before.items() if table not in dropped}
    added = {table: {**pins.get(table, {}), **new} for table, new in commit.pins.items()}
    return {**pins, **added}


def _keep_last(runs: dict[str, int], count: int) -> dict[str, int]:
    return dict(sorted(runs.items(), key=lambda item: item[1])[-count:])


def digests(one: Input) -> list[bytes]:
    """The digests of an input and of the file that it is a copy of."""
    return [
        blake2b(f"{uri}\n{fingerprint}".encode(), digest_size=DIGEST_BYTES).digest()
        for uri, fingerprint in one.identities
    ]
