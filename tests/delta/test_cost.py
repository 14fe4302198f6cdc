"""What a commit to a table costs: the same however many commits came before."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from eventlake.formats.delta import DeltaFormat
from eventlake.formats.delta_table import CHECKPOINT_INTERVAL
from eventlake.lakes import open_store
from eventlake.stores import Disk
from tests.aws.answers import Answer
from tests.aws.calls import Call
from tests.aws.moto import Aws, aws
from tests.aws.proxy import Proxy, proxy
from tests.aws.rules import Forward
from tests.delta.test_killed import copy_in
from tests.delta.test_publish import TABLE, change, own_path

__all__ = ["aws", "proxy"]

FILE_BYTES = 600
"""What a file may add to what is read: its entry in the checkpoint, which is read several times."""


@dataclass
class Counting:
    """Counts requests, and the bytes of their answers."""

    requests: Counter[str] = field(default_factory=Counter)
    bytes: int = 0

    def __call__(self, call: Call, forward: Forward) -> Answer:
        answer = forward(call)
        self.requests[call.action] += 1
        self.bytes += len(answer.body)
        return answer


@pytest.mark.parametrize("phase", [4, CHECKPOINT_INTERVAL - 1], ids=["between", "checkpoint"])
def test_requests_do_not_grow_with_the_number_of_commits(
    aws: Aws, proxy: Proxy, tmp_path: Path, phase: int
) -> None:
    """A run reads the newest checkpoint of a log, and the versions since."""
    few = cost_after(2 * CHECKPOINT_INTERVAL + phase, aws, proxy, tmp_path / "few")
    many = cost_after(8 * CHECKPOINT_INTERVAL + phase, aws, proxy, tmp_path / "many")
    assert many.requests == few.requests
    assert many.bytes - few.bytes <= 6 * CHECKPOINT_INTERVAL * FILE_BYTES


def cost_after(commits: int, aws: Aws, proxy: Proxy, folder: Path) -> Counting:
    """What a run costs that finds a table after so many commits, and adds another."""
    for number in range(1, commits + 1):
        DeltaFormat(Disk(str(folder))).publish([change(number, own_path(number))])
    aws.reset()
    aws.make_bucket()
    store, counting = open_store(aws.settings(format="delta")), Counting()
    copy_in(folder, store)
    with proxy.ruled(counting):
        tables = DeltaFormat(store)
        tables.check({"orders": TABLE})
        tables.publish([change(commits + 1, own_path(commits + 1))])
    return counting
