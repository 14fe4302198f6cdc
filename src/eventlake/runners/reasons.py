"""Finds the reason why Spark did not start, in its exception or its log."""

import re
from pathlib import Path

MAX_LENGTH = 300
_UNINFORMATIVE = ("JAVA_GATEWAY_EXITED", "stopped SparkContext")
"""Exceptions without a reason: it is in the log."""
_WORKER = re.compile(r"^Error from python worker:\n\s*(.+)$", re.MULTILINE)
_CAUSE = re.compile(r"^(?:Caused by)?: (\S.*\S)\s*$", re.MULTILINE)
_ERROR_LINE = re.compile(r"^(?:[\d/]+ [\d:]+ ERROR|Exception in thread \S+) (.+)$", re.MULTILINE)
_NOISE = re.compile(r"^(?:\s|\d\d/\d\d/\d\d |WARNING: |Using Spark's)")
"""Stack frames, warnings, and lines that every start prints."""


def start_failure(problem: Exception, log: Path) -> str:
    """The line of PySpark's exception, or of Spark's log, that names the cause."""
    text = str(problem)
    reason = _last_error(log) if any(word in text for word in _UNINFORMATIVE) else ""
    reason = reason or _root_cause(text) or type(problem).__name__
    return reason if len(reason) <= MAX_LENGTH else f"{reason[:MAX_LENGTH]}…"


def _root_cause(text: str) -> str:
    """The root cause in the text of a Java or Python exception."""
    if worker := _WORKER.search(text):
        return worker[1]
    if causes := _CAUSE.findall(text):
        return str(causes[-1])
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _last_error(log: Path) -> str:
    """The last error in a log; without errors, as when the JVM fails to start, its last lines."""
    try:
        text = log.read_text("utf-8", errors="replace")
    except OSError:
        return ""
    if errors := _ERROR_LINE.findall(text):
        return str(errors[-1])
    lines = [line for line in text.splitlines() if line and not _NOISE.match(line)]
    return " ".join(lines[-2:])
