"""How a command ends: an exit code and at most one line on stderr, never a stack trace."""

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from tempfile import NamedTemporaryFile

from eventlake.errors import EventLakeError, InsufficientPermissions, Internal, InvalidSettings

FINISHED, FAILED, USAGE, PARTIAL, INTERRUPTED = 0, 1, 2, 3, 130

_WRONG_PATH = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError)


def guarded(command: Callable[[], object], arguments: Sequence[str]) -> int:
    """Run a command and return its exit code."""
    try:
        code = _exit_code(command)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        code = FAILED
    except Exception as problem:
        if _was_interrupted(problem):
            code = INTERRUPTED
        else:
            code = _fail(_known(problem, arguments), as_json="--json" in arguments)
    if code == INTERRUPTED:
        sys.stderr.write("interrupted; run the same command again to finish\n")
    return FAILED if _pipe_is_broken() else code


def _exit_code(command: Callable[[], object]) -> int:
    try:
        command()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILED
    return FINISHED


def _fail(problem: EventLakeError, *, as_json: bool) -> int:
    message = " ".join(str(problem).split())
    sys.stderr.write(f"error: {message} ({problem.code})\n")
    if as_json:
        from eventlake.cli.rows import to_json

        sys.stdout.write(to_json({"error": message, "error_code": problem.code}) + "\n")
    return USAGE if isinstance(problem, InvalidSettings) else FAILED


def _known(problem: Exception, arguments: Sequence[str]) -> EventLakeError:
    """The failure as one of ours; an unforeseen one leaves its trace in a file."""
    if isinstance(problem, EventLakeError):
        return problem
    if isinstance(problem, PermissionError):
        return InsufficientPermissions(f"{problem.strerror}: {problem.filename}")
    if isinstance(problem, _WRONG_PATH) and _was_given(str(problem.filename), arguments):
        return InvalidSettings(f"{problem.strerror}: {problem.filename}")
    return Internal(
        f"something unforeseen went wrong ({type(problem).__name__});"
        f" the details are in {_write_trace(problem)}"
    )


def _was_interrupted(problem: BaseException | None) -> bool:
    """Whether an interrupt is behind it: py4j answers one that comes in a call with an error."""
    while problem is not None and not isinstance(problem, KeyboardInterrupt):
        problem = problem.__cause__ or problem.__context__
    return problem is not None


def _was_given(path: str, arguments: Sequence[str]) -> bool:
    """Whether a path is the user's own, or a folder on the way to it."""
    return any(argument.startswith(path) for argument in arguments)


def _write_trace(problem: Exception) -> str:
    try:
        with NamedTemporaryFile("w", prefix="eventlake-", suffix=".log", delete=False) as log:
            log.writelines(traceback.format_exception(problem))
    except OSError as unwritable:
        return f"no file, as none could be written ({unwritable.strerror}: set TMPDIR)"
    return log.name


def _pipe_is_broken() -> bool:
    """Flush now: Python would complain about a reader that has gone at exit."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False
