"""Every run of a lake, from its ledgers and reports, without its tables."""

import json
from collections.abc import Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from eventlake.lake import Lake
from eventlake.lakes import open_parts
from eventlake.ledger import Ledger, list_ledgers
from eventlake.model.commit import CommitKind
from eventlake.model.lake import LakeSettings
from eventlake.model.report import Line, Problems, report_lines, run_stamp
from eventlake.model.settings import SourceSettings
from eventlake.parallel import MAX_REQUESTS
from eventlake.stores.damage import damaged

BATCH = 500
"""Runs that are in memory at a time."""


@dataclass(frozen=True)
class PastRun:
    """A run that ended: the kind of its commit, and the lines of its report."""

    kind: str
    report: Sequence[Line]


@dataclass(frozen=True)
class SourceHistory:
    """The runs of one source."""

    settings: SourceSettings
    """Those of the last commit."""
    lake: Lake
    ledger: Ledger
    reported: Set[str]
    """The runs that have a report: those that failed have no commit."""

    def iterate_runs(self, known: Set[str]) -> Iterator[list[PastRun]]:
        """The runs that are not in `known`, oldest first, in batches."""
        committed = self.ledger.read_commit_heads()
        wanted = sorted((self.reported | committed.keys()) - known)

        def read(run_id: str) -> PastRun:
            kind, sequence = committed.get(run_id, (CommitKind.LOAD, 0))
            if run_id in self.reported:
                return PastRun(kind, self._read_report(run_id))
            commit = self.ledger.read_commit(sequence)
            return PastRun(kind, report_lines(commit, run_stamp(run_id), Problems()))

        with ThreadPoolExecutor(MAX_REQUESTS) as pool:
            for start in range(0, len(wanted), BATCH):
                yield list(pool.map(read, wanted[start : start + BATCH]))

    def _read_report(self, run_id: str) -> list[Line]:
        path = self.lake.layout.report_path(self.ledger.folder, run_id)
        try:
            return [json.loads(line) for line in self.lake.store.read(path).splitlines()]
        except (ValueError, RecursionError) as problem:
            raise damaged(
                self.lake.store, path, str(problem), "delete it: the ledger has its counts too"
            ) from problem


def read_history(lake: str | Path | LakeSettings | Lake) -> list[SourceHistory]:
    """The sources of a lake that have landed events, with their runs still to be read."""
    parts = open_parts(lake)
    reported: dict[str, set[str]] = {}
    for one in parts.store.objects(parts.layout.reports):
        if match := parts.layout.parse_report_path(one.path):
            run_id = one.path.split("/run_id=")[1].partition("/")[0]
            reported.setdefault(match[1], set()).add(run_id)
    histories = []
    for ledger in list_ledgers(parts.store, parts.layout):
        if settings := ledger.read_settings():
            runs = reported.get(ledger.folder, set())
            histories.append(SourceHistory(settings, parts, ledger, runs))
    return histories
