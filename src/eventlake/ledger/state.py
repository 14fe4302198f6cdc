"""The state of a source after its commits: what a plan needs, in bounded size where possible."""

from base64 import b64decode, b64encode
from collections.abc import Iterable
from hashlib import blake2b
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
    inputs: frozenset[bytes] = frozenset()
    """Digests of the loaded inputs."""
    tables: dict[str, TableSchema] = Field(default_factory=dict)
    ids: tuple[IdFile, ...] = ()
    retired: dict[str, str] = Field(default_factory=dict)
    """Index files that are no longer read, with the run that merged them."""
    runs: dict[str, int] = Field(default_factory=dict)
    """The sequence of each recent run."""
    pinned: Pins = Field(default_factory=dict)
    """By table, the types that the user has set with `retype`."""
    manifests: tuple[Manifest, ...] = ()
    """The manifests of the commits up to the last snapshot."""

    @field_serializer("inputs", when_used="json")
    def _pack_inputs(self, inputs: frozenset[bytes]) -> str:
        return b64encode(b"".join(sorted(inputs))).decode()

    @field_validator("inputs", mode="before")
    @classmethod
    def _unpack_inputs(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        packed = b64decode(value, validate=True)
        starts = range(0, len(packed), DIGEST_BYTES)
        return frozenset(packed[start : start + DIGEST_BYTES] for start in starts)

    def apply_commits(self, commits: Iterable[tuple[int, Commit]], recent_runs: int) -> Self:
        """Return the state after further commits, given in order with their sequences.

        It has the sequences of the last `recent_runs` runs; those of older runs are in manifests.
        """
        state, inputs, tables = self, set(self.inputs), dict(self.tables)
        for sequence, commit in commits:
            if commit.is_whole:
                inputs.clear()
                tables.clear()
            inputs.update(digest for one in commit.inputs for digest in digests(one))
            for table in commit.tables:
                # A table exists from its first row: not while all its events were duplicates,
                # suppressed or skipped.
                if table.dropped:
                    tables.pop(table.table.name, None)
                elif table.adds or table.adopted or table.table.name in tables:
                    tables[table.table.name] = table.table
            state = state._update_index(commit).model_copy(
                update={
                    "sequence": sequence,
                    "settings": commit.settings,
                    "runs": _keep_last({**state.runs, commit.run_id: sequence}, recent_runs),
                    "pinned": _apply_pins(state.pinned, commit),
                }
            )
        return state.model_copy(update={"inputs": frozenset(inputs), "tables": tables})

    def _update_index(self, commit: Commit) -> Self:
        replaced = {path for merge in commit.merges for path in merge.replaces}
        if commit.is_whole:
            replaced |= {file.path for file in self.ids}
        remaining = leave_out(commit.removed_ids, self.ids)
        remaining = tuple(file for file in remaining if file.path not in replaced)
        ids = (*remaining, *(merge.file for merge in commit.merges), *commit.ids)
        unused = replaced | (_removed_id_files(self.ids) - _removed_id_files(ids))
        retired = self.retired | dict.fromkeys(sorted(unused), commit.run_id)
        return self.model_copy(
            update={
                "ids": ids,
                "retired": {p: run for p, run in retired.items() if p not in commit.deletes},
            }
        )

    def has_loaded(self, one: Input) -> bool:
        """Whether an input, or the file that it is a copy of, was loaded."""
        return any(digest in self.inputs for digest in digests(one))


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
