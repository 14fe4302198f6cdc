"""Answers questions about one lake: a line of JSON in, a line of JSON out, until stdin ends."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO

from eventlake.errors import EventLakeError
from eventlake.lakes import open_parts, parse_settings
from eventlake.model.contents import DetailQuery, TableQuery
from eventlake.model.quarantine import QuarantineQuery
from eventlake.model.values import FrozenModel
from eventlake.services.browse import Browser

Answer = Callable[[Browser, str, Mapping[str, Any]], FrozenModel]

ANSWERS: Mapping[str, Answer] = {
    "tables": lambda one, folder, query: one.list_tables(folder, TableQuery(**query)),
    "table": lambda one, folder, query: one.describe_table(folder, DetailQuery(**query)),
    "archive": lambda one, folder, _: one.list_archive(folder),
    "quarantine": lambda one, folder, query: one.list_quarantined(folder, QuarantineQuery(**query)),
    "quarantine_reasons": lambda one, folder, _: one.summarize_quarantine(folder),
}
"""By the name of the question, the function that answers it for a source's folder."""


def main(words: Sequence[str], questions: BinaryIO, answers: BinaryIO) -> None:
    """Open the lake with the settings `words`, and answer each question in its turn."""
    browser: Browser | None = None
    for line in questions:
        asked = json.loads(line)
        try:
            browser = browser or Browser(open_parts(parse_settings(words), make=True))
            answer = ANSWERS[asked["question"]](browser, asked["folder"], asked["query"])
            text = f'{{"answer":{answer.model_dump_json()}}}'
        except EventLakeError as problem:
            error = {"code": problem.code, "kind": type(problem).__name__, "detail": str(problem)}
            text = json.dumps({"error": error})
        answers.write(text.encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdin.buffer, sys.stdout.buffer)
