"""The quarantine of a source, as the lake has it.

Quarantine files are Parquet, so a process of its own reads them: the server imports no Arrow.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, TypeVar

from eventlake import errors
from eventlake.control.lake_access import SourceAccess
from eventlake.errors import EventLakeError, Unavailable
from eventlake.lakes import open_parts
from eventlake.model.quarantine import (
    READ_FAILED,
    QuarantinePage,
    QuarantineQuery,
    QuarantineSummary,
)
from eventlake.model.values import FrozenModel

READ_SECONDS = 60
M = TypeVar("M", bound=FrozenModel)


def summarize_quarantine(source: SourceAccess) -> QuarantineSummary:
    """How many lines are in a source's quarantine, by reason and day; it has no event's values."""
    if not _has_landed(source):
        return QuarantineSummary(items=())
    return QuarantineSummary.from_json(_ask(source, "summary", QuarantineQuery()))


def list_quarantined(source: SourceAccess, query: QuarantineQuery) -> QuarantinePage:
    """A page of a source's quarantined lines, newest runs first."""
    if not _has_landed(source):
        return QuarantinePage(items=())
    return QuarantinePage.from_json(_ask(source, "list", query))


def _has_landed(source: SourceAccess) -> bool:
    """Whether the source has a ledger; without one it has no quarantine."""
    access = source.access
    parts = open_parts(access.lake.model, make=True, secrets=access.secrets)
    return any(parts.store.names(f"{parts.layout.ledger}/{source.settings.folder}"))


def _ask(source: SourceAccess, question: str, query: QuarantineQuery) -> bytes:
    """Have a process read the lake.

    Raises the error that it raised, and Unavailable if it does not end within a minute.
    """
    lake = source.access.lake
    command = [sys.executable, "-P", "-m", "eventlake.worker.reading", question]
    try:
        done = subprocess.run(
            [*command, source.settings.folder, *lake.model.to_words()],
            env={**os.environ, **source.access.variables},
            input=query.to_json(),
            stdout=subprocess.PIPE,
            timeout=READ_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"the lake {lake.slug} did not answer: try again") from None
    if done.returncode == READ_FAILED:
        raise _to_error(json.loads(done.stdout))
    if done.returncode:
        raise Unavailable(f"the lake {lake.slug} could not be read: the server's log says why")
    return done.stdout


def _to_error(problem: Mapping[str, Any]) -> EventLakeError:
    kinds = [one for one in vars(errors).values() if isinstance(one, type)]
    found = [
        one for one in kinds if issubclass(one, EventLakeError) and one.code == problem["code"]
    ]
    return (found[0] if found else EventLakeError)(problem["detail"])
