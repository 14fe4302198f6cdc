"""A process that reads the quarantine of a source for the server, which imports no Arrow."""

import json
import sys
from collections.abc import Callable, Mapping

from eventlake.control.quarantine import FAILED
from eventlake.errors import EventLakeError
from eventlake.lakes import open_parts, parse_settings
from eventlake.model.quarantine import QuarantineQuery
from eventlake.model.values import FrozenModel
from eventlake.services.quarantine import list_quarantined, summarize_quarantine

_QUESTIONS: Mapping[str, Callable[..., FrozenModel]] = {
    "list": list_quarantined,
    "summary": lambda parts, folder, _: summarize_quarantine(parts, folder),
}


def main(question: str, folder: str, *words: str) -> int:
    """Answer a question about the lake with the settings `words`; the query is on stdin.

    Writes the answer as JSON, or the error with its code; returns the exit status.
    """
    query = QuarantineQuery.from_json(sys.stdin.buffer.read())
    try:
        answer = _QUESTIONS[question](open_parts(parse_settings(words), make=True), folder, query)
    except EventLakeError as problem:
        sys.stdout.write(json.dumps({"code": problem.code, "detail": str(problem)}))
        return FAILED
    sys.stdout.write(answer.model_dump_json())
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
