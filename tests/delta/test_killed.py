"""A publish into a Delta table that ends at any of its steps, and is repeated by the next run.

On disk it ends at each call of the store, between which deltalake commits; in S3 a process is
killed at each request, those of deltalake included.
"""

import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from eventlake.formats.delta import DeltaFormat
from eventlake.lakes import open_store
from eventlake.lakes.aws_settings import AwsSettings
from eventlake.model.commit import DataFile, TableChange
from eventlake.stores import Disk, Store
from tests import processes
from tests.aws.calls import Call
from tests.aws.moto import Aws, aws
from tests.aws.proxy import Proxy, proxy
from tests.aws.rules import Kills
from tests.aws.test_killed import within
from tests.delta.test_publish import PRICE, TABLE, change, own_path

__all__ = ["aws", "proxy"]

EARLIER = 8
"""Commits before: with the new column and the rows, the log has ten versions and a checkpoint."""
LAST = EARLIER + 1


def staged(sequence: int, number: int) -> DataFile:
    [file] = change(sequence, own_path(sequence * 10 + number)).adds
    return file.model_copy(update={"staged": f"segment-stage/{sequence}/{number}.parquet"})


def added(sequence: int) -> TableChange:
    return change(sequence, "", adds=(staged(sequence, 0), staged(sequence, 1)))


def replaced() -> TableChange:
    """A commit with a new column and two files, one of which is in the place of another."""
    adds = (staged(LAST, 0), staged(LAST, 1))
    return change(LAST, "", columns=(PRICE,), adds=adds, removes=(staged(1, 0),))


def stage(store: Store, one: TableChange) -> None:
    for file in one.adds:
        store.write(file.staged, b"rows")


def publish_earlier(store: Store) -> None:
    for sequence in range(1, EARLIER + 1):
        stage(store, added(sequence))
        DeltaFormat(store).publish([added(sequence)])


def read(store: Store) -> DeltaTable:
    return DeltaTable(f"{store.root}/{TABLE}", storage_options=store.storage_options())


def check(store: Store, done: int) -> None:
    """The table has the files of all commits up to `done` once, and all of them are there."""
    table = read(store)
    live = sorted(table.get_add_actions(flatten=True).column("path").to_pylist())
    wanted = [own_path(n * 10 + m) for n in range(1, done + 1) for m in range(2)]
    assert live == (wanted[1:] if done == LAST else wanted)
    assert all(store.exists(f"{TABLE}/{path}") for path in live)
    assert store.exists(f"{TABLE}/{wanted[0]}") == (done < LAST)
    names = [field.name for field in table.schema().fields]
    assert ("price" in names) == (done == LAST)
    assert table.version() == (EARLIER + 1 if done == LAST else 0)


def check_repeated(store: Store, one: TableChange) -> None:
    """The next run publishes the commit again; another run after it adds no version."""
    DeltaFormat(store).publish([one])
    check(store, one.transaction.sequence)
    DeltaFormat(store).publish([one])
    assert read(store).version() == (EARLIER + 1 if one.removes else 0)


# On disk


class End(BaseException):
    """What a kill is to the code that it ends."""


class Ending:
    """A store in which the process ends before the n-th call, or after the last one."""

    def __init__(self, store: Store, number: int) -> None:
        self.store, self.number = store, number

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.store, name)
        return self._counted(found) if callable(found) else found

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any, **options: Any) -> Any:
            self.number -= 1
            if self.number < 0:
                raise End
            return call(*given, **options)

        return counted


def ends_at(store: Store, one: TableChange, number: int) -> bool:
    """Whether a publish ends at a call; otherwise it has fewer calls."""
    try:
        DeltaFormat(Ending(store, number)).publish([one])  # type: ignore[arg-type]
    except End:
        return True
    return False


@pytest.mark.parametrize("one", [added(1), replaced()], ids=["new", "replaced"])
def test_ended_at_every_call_on_disk(tmp_path: Path, one: TableChange) -> None:
    number, ended = 0, True
    while ended:
        store = Disk(str(tmp_path / f"{number}"))
        if one.removes:
            publish_earlier(store)
        stage(store, one)
        ended = ends_at(store, one, number)
        check_repeated(store, one)
        number += 1
    assert number > (10 if one.removes else 5)


# In S3


def publish_in(lake: AwsSettings, one: TableChange) -> None:
    DeltaFormat(open_store(lake)).publish([one])


def is_written(call: Call) -> bool:
    """Whether a request changes something in the bucket."""
    return re.match("PutObject|CopyObject|DeleteObject", call.action) is not None


def copy_in(here: Path, store: Store) -> None:
    """Copy what is on disk into the bucket; faster than publishing there."""
    for path in here.rglob("*"):
        if path.is_file():
            store.write(path.relative_to(here).as_posix(), path.read_bytes())


@pytest.mark.parametrize("one", [added(1), replaced()], ids=["new", "replaced"])
def test_killed_after_every_write_in_s3(
    aws: Aws, proxy: Proxy, tmp_path: Path, one: TableChange
) -> None:
    """Also between a version and its checkpoint, and before the answer has come."""
    if one.removes:
        publish_earlier(Disk(str(tmp_path)))
    stage(Disk(str(tmp_path)), one)
    lake, number, code = aws.settings(format="delta"), 0, -signal.SIGKILL
    while code == -signal.SIGKILL:
        aws.reset()
        aws.make_bucket()
        store = open_store(lake)
        copy_in(tmp_path, store)
        at = Kills(is_written, number, after=True)
        with proxy.ruled(at), proxy.visited():
            process = processes.start(within, proxy.here, publish_in, lake, one)
            at.victim.set_result(process.pid or 0)
            code = processes.finish(process)
        check_repeated(store, one)
        number += 1
    assert code == 0
    # Two files are copied and a version is put; then also new columns, a checkpoint, the name
    # of the checkpoint, and a deletion.
    assert number - 1 == (7 if one.removes else 3)
