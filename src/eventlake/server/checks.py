"""Checks of a lake, in a process of their own: the server imports neither Arrow nor Spark."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from threading import Timer

from eventlake.errors import Unavailable
from eventlake.model.lake import LakeSettings
from eventlake.model.values import FrozenModel

CHECK_SECONDS = 120.0


class CheckResult(FrozenModel):
    """An operation that was tried."""

    name: str
    ok: bool
    detail: str
    grant: str = ""
    """What to paste to grant a missing permission, if that is known: a statement of an IAM policy,
    a command of the Azure CLI, or SQL."""


class CheckedLake(FrozenModel):
    """What was tried in a lake."""

    ok: bool
    checks: tuple[CheckResult, ...]


def check_lake(lake: LakeSettings, secrets: Mapping[str, str]) -> CheckedLake:
    """Try all operations of a run; raises Unavailable if that does not end within two minutes."""
    checks = tuple(stream_checks(lake, secrets))
    return CheckedLake(ok=all(one.ok for one in checks), checks=checks)


def stream_checks(lake: LakeSettings, secrets: Mapping[str, str]) -> Iterator[CheckResult]:
    """Try all operations of a run, and yield each as soon as its result is known.

    Raises Unavailable if that does not end within two minutes.
    """
    command = [sys.executable, "-P", "-m", "eventlake.server.checks", *lake.to_words()]
    with subprocess.Popen(
        command,
        env={**os.environ, **secrets},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    ) as child:
        timer = Timer(CHECK_SECONDS, child.kill)
        timer.start()
        try:
            for line in child.stdout or ():
                yield CheckResult.from_json(line)
            child.wait()  # it closes its output before it ends
        finally:
            timer.cancel()
            child.kill()
    if child.returncode:
        raise Unavailable("the checks did not end: try again")


def _check(words: Sequence[str]) -> None:
    from eventlake.lakes import parse_settings  # noqa: PLC0415 - only in the process of checks
    from eventlake.services.check import Check, check  # noqa: PLC0415 - it imports Arrow

    def show(one: Check) -> None:
        sys.stdout.write(CheckResult(**one.model_dump()).model_dump_json() + "\n")
        sys.stdout.flush()

    check(parse_settings(words), on_check=show)


if __name__ == "__main__":
    _check(sys.argv[1:])
