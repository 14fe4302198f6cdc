"""Exit codes and error messages: at most one line on stderr, never a stack trace."""

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from tempfile import NamedTemporaryFile

from eventlake.errors import EventLakeError, InsufficientPermissions, Internal, InvalidSettings

FINISHED, FAILED, USAGE, PARTIAL, INTERRUPTED = 0, 1, 2, 3, 130

_PATH_ERRORS = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError)


def run_command(command: Callable[[], object], arguments: Sequence[str]) -> int:
    """Run a command, print its error to stderr, and return the exit code.

    With `--json` among the arguments, an error is printed to stdout as JSON too.
    """
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
            code = _print_error(
                _to_eventlake_error(problem, arguments), as_json="--json" in arguments
            )
    if code == INTERRUPTED:
        sys.stderr.write("interrupted; run the same command again to finish\n")
    return FAILED if _flush_fails() else code


def _exit_code(command: Callable[[], object]) -> int:
    try:
        command()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILED
    return FINISHED


def _print_error(problem: EventLakeError, *, as_json: bool) -> int:
    """Print an error and return the exit code."""
    message = " ".join(str(problem).split())
    sys.stderr.write(f"error: {message} ({problem.code})\n")
    if as_json:
        from eventlake.cli.rows import to_json

        sys.stdout.write(to_json({"error": message, "error_code": problem.code}) + "\n")
    return USAGE if isinstance(problem, InvalidSettings) else FAILED


def _to_eventlake_error(problem: Exception, arguments: Sequence[str]) -> EventLakeError:
    """Return an exception as EventLakeError; the traceback of an unexpected one goes to a file."""
    if isinstance(problem, EventLakeError):
        return problem
    if isinstance(problem, PermissionError):
        return InsufficientPermissions(f"{problem.strerror}: {problem.filename}")
    if isinstance(problem, _PATH_ERRORS) and _is_argument(str(problem.filename), arguments):
        return InvalidSettings(f"{problem.strerror}: {problem.filename}")
    return Internal(f"unexpected error ({type(problem).__name__}); {_save_traceback(problem)}")


def _was_interrupted(problem: BaseException | None) -> bool:
    """Return whether an interrupt caused the exception: py4j turns one into its own error."""
    while problem is not None and not isinstance(problem, KeyboardInterrupt):
        problem = problem.__cause__ or problem.__context__
    return problem is not None


def _is_argument(path: str, arguments: Sequence[str]) -> bool:
    """Return whether a path is an argument of the command, or a parent of one."""
    return any(argument.startswith(path) for argument in arguments)


def _save_traceback(problem: Exception) -> str:
    """Write the traceback to a temporary file, and return a text that names it."""
    try:
        with NamedTemporaryFile("w", prefix="eventlake-", suffix=".log", delete=False) as log:
            log.writelines(traceback.format_exception(problem))
    except OSError as os_error:
        return f"its traceback could not be saved ({os_error.strerror}: set TMPDIR)"
    return f"the traceback is in {log.name}"


def _flush_fails() -> bool:
    """Flush stdout and return whether its reader has gone; Python would print an error at exit."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False
