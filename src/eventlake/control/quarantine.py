"""The quarantine of a source, and the receipts of erasures: read from the lake.

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
from eventlake.model.quarantine import QuarantinePage, QuarantineQuery, QuarantineSummary
from eventlake.model.values import FrozenModel

READ_SECONDS = 60
FAILED = 3
"""The exit status of a process whose output is an error."""
M = TypeVar("M", bound=FrozenModel)


def summarize_quarantine(source: SourceAccess) -> QuarantineSummary:
    """How many lines are in a source's quarantine, by reason and day; it has no event's values."""
    return QuarantineSummary.from_json(_ask(source, "summary", QuarantineQuery()))


def list_quarantined(source: SourceAccess, query: QuarantineQuery) -> QuarantinePage:
    """A page of a source's quarantined lines, newest runs first."""
    return QuarantinePage.from_json(_ask(source, "list", query))


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
    if done.returncode == FAILED:
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
