"""What a source's commits add up to: all that a plan needs, and nothing that grows without need."""

from base64 import b64decode, b64encode
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, Self

from pydantic import Field, field_serializer, field_validator

from eventlake.model.commit import Commit, IdFile, Input
from eventlake.model.schema import TableSchema
from eventlake.model.settings import SourceSettings
from eventlake.model.values import FrozenModel

RECENT_RUNS = 200
"""Runs whose sequence the state has at hand; those of older ones are in the manifests."""
DIGEST_BYTES = 12
"""Enough to tell apart any number of files that a lake can have."""


class Manifest(FrozenModel):
    """An object with the files that the commits of a range of sequences added and removed."""

    first: int
    last: int
    path: str


class State(FrozenModel):
    """What is true of a source after a commit."""

    sequence: int = 0
    settings: SourceSettings | None = None
    inputs: frozenset[bytes] = frozenset()
    """Digests of the files that were loaded."""
    tables: dict[str, TableSchema] = Field(default_factory=dict)
    ids: tuple[IdFile, ...] = ()
    retired: dict[str, str] = Field(default_factory=dict)
    """Files of the id index that a merged one has replaced, each with the run that merged it."""
    runs: dict[str, int] = Field(default_factory=dict)
    """The sequence of each recent run."""
    manifests: tuple[Manifest, ...] = ()
    """Where the data files of the commits up to the last snapshot are listed."""

    @field_serializer("inputs", when_used="json")
    def _pack_inputs(self, inputs: frozenset[bytes]) -> str:
        return b64encode(b"".join(sorted(inputs))).decode()

    @field_validator("inputs", mode="before")
    @classmethod
    def _unpack_inputs(cls, given: Any) -> Any:
        if not isinstance(given, str):
            return given
        packed = b64decode(given, validate=True)
        starts = range(0, len(packed), DIGEST_BYTES)
        return frozenset(packed[start : start + DIGEST_BYTES] for start in starts)

    def after(self, commits: Iterable[tuple[int, Commit]]) -> Self:
        """The state after further commits, each with its sequence."""
        state, inputs, tables = self, set(self.inputs), dict(self.tables)
        for sequence, commit in commits:
            inputs.update(digest for one in commit.inputs for digest in digests(one))
            for done in commit.tables:
                # A table begins with its first row: one whose events were all duplicates,
                # suppressed or skipped is not there yet.
                if done.adds or done.adopted or done.table.name in tables:
                    tables[done.table.name] = done.table
            state = state._with_index(commit).model_copy(
                update={
                    "sequence": sequence,
                    "settings": commit.settings,
                    "runs": _recent({**state.runs, commit.run_id: sequence}),
                }
            )
        return state.model_copy(update={"inputs": frozenset(inputs), "tables": tables})

    def _with_index(self, commit: Commit) -> Self:
        gone = {path for merge in commit.merges for path in merge.replaces}
        kept = tuple(file for file in self.ids if file.path not in gone)
        retired = self.retired | dict.fromkeys(sorted(gone), commit.run_id)
        return self.model_copy(
            update={
                "ids": (*kept, *(merge.file for merge in commit.merges), *commit.ids),
                "retired": {p: run for p, run in retired.items() if p not in commit.deletes},
            }
        )

    def has_loaded(self, one: Input) -> bool:
        return any(digest in self.inputs for digest in digests(one))


def _recent(runs: dict[str, int]) -> dict[str, int]:
    return dict(sorted(runs.items(), key=lambda item: item[1])[-RECENT_RUNS:])


def digests(one: Input) -> list[bytes]:
    """What the state keeps of a loaded file, and of the file that it is a copy of."""
    return [
        blake2b(f"{uri}\n{fingerprint}".encode(), digest_size=DIGEST_BYTES).digest()
        for uri, fingerprint in one.identities
    ]
