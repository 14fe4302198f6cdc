"""Checks of a lake, in a process of their own: the server imports neither Arrow nor Spark."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

from eventlake.control.lakes import RegisteredLake
from eventlake.errors import Unavailable
from eventlake.model.values import FrozenModel

CHECK_SECONDS = 120


class CheckResult(FrozenModel):
    """An operation that was tried."""

    name: str
    ok: bool
    detail: str


class CheckedLake(FrozenModel):
    """What was tried in a lake."""

    ok: bool
    checks: tuple[CheckResult, ...]


def check_lake(lake: RegisteredLake, secrets: Mapping[str, str]) -> CheckedLake:
    """Try all operations of a run; raises Unavailable if that does not end within two minutes."""
    command = [sys.executable, "-m", "eventlake.server.checks", *lake.model.to_words()]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **secrets},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            timeout=CHECK_SECONDS,
            check=True,
        )
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        raise Unavailable(f"the checks of {lake.slug} did not end: try again") from None
    return CheckedLake.from_json(done.stdout)


def _check(words: Sequence[str]) -> CheckedLake:
    from eventlake.lakes import parse_settings  # noqa: PLC0415 - only in the process of checks
    from eventlake.services.check import check  # noqa: PLC0415 - it imports Arrow

    found = tuple(CheckResult(**one.model_dump()) for one in check(parse_settings(words)))
    return CheckedLake(ok=all(one.ok for one in found), checks=found)


if __name__ == "__main__":
    sys.stdout.write(_check(sys.argv[1:]).model_dump_json())
