"""Why Spark did not start, in a line, from its exception and its log."""

import re
from pathlib import Path

MAX_LENGTH = 300
_UNINFORMATIVE = ("JAVA_GATEWAY_EXITED", "stopped SparkContext")
"""Exceptions that say only that it ended: the reason is in the log."""
_WORKER = re.compile(r"^Error from python worker:\n\s*(.+)$", re.MULTILINE)
_CAUSE = re.compile(r"^(?:Caused by)?: (\S.*\S)\s*$", re.MULTILINE)
_ERROR_LINE = re.compile(r"^(?:[\d/]+ [\d:]+ ERROR|Exception in thread \S+) (.+)$", re.MULTILINE)
_NOISE = re.compile(r"^(?:\s|\d\d/\d\d/\d\d |WARNING: |Using Spark's)")
"""Stack frames, warnings, and what Spark says each time."""


def start_failure(problem: Exception, log: Path) -> str:
    """The most telling line of an exception of PySpark, or of Spark's log."""
    text = str(problem)
    said = _last_error(log) if any(word in text for word in _UNINFORMATIVE) else ""
    said = said or _reason(text) or type(problem).__name__
    return said if len(said) <= MAX_LENGTH else f"{said[:MAX_LENGTH]}…"


def _reason(text: str) -> str:
    """The line of a Java or Python exception's text that names what went wrong first."""
    if worker := _WORKER.search(text):
        return worker[1]
    if causes := _CAUSE.findall(text):
        return str(causes[-1])
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _last_error(log: Path) -> str:
    """The last error in a log; of a JVM that did not come up, the last that it said."""
    try:
        text = log.read_text("utf-8", errors="replace")
    except OSError:
        return ""
    if errors := _ERROR_LINE.findall(text):
        return str(errors[-1])
    lines = [line for line in text.splitlines() if line and not _NOISE.match(line)]
    return " ".join(lines[-2:])
