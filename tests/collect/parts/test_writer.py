"""Group commit: which requests share an fsync, and what they get after an error."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event

import pytest

from eventlake.clock import SYSTEM_CLOCK, Clock
from eventlake.collect.limits import Limits
from eventlake.collect.refusal import Refusal
from eventlake.collect.spool import Spool
from eventlake.collect.writer import Writer
from tests.clocks import SimulatedClock

DAY = 1794700800000


class BlockingSpool(Spool):
    """A spool that blocks while `unblocked` is cleared, and records what was appended together."""

    def __init__(self, folder: Path, clock: Clock = SYSTEM_CLOCK, **limits: float) -> None:
        super().__init__(folder, Limits(**limits), self.complete, clock)  # type: ignore[arg-type]
        self.commits: list[tuple[int, bytes]] = []
        self.completed: list[bytes] = []
        self.unblocked = Event()
        self.unblocked.set()
        self.error: Exception | None = None

    def complete(self, segment: object) -> None:
        self.completed.append(segment.path.read_bytes())  # type: ignore[attr-defined]

    def append(self, day: int, lines: object) -> float:
        self.unblocked.wait(5)
        if self.error:
            raise self.error
        self.commits.append((day, b"".join(lines)))  # type: ignore[arg-type]
        return super().append(day, lines)  # type: ignore[arg-type]


class FailingRotation(BlockingSpool):
    """A spool that cannot complete a segment."""

    def rotate(self) -> None:
        raise OSError(5, "Input/output error")


class RecordingListener:
    """Records the notifications of the writer."""

    def __init__(self) -> None:
        self.fsync_seconds: list[float] = []
        self.failures: list[str] = []

    def record_fsync(self, seconds: float) -> None:
        self.fsync_seconds.append(seconds)

    def report_failure(self, message: str) -> None:
        self.failures.append(message)


def with_writer(
    spool: BlockingSpool, scenario: Callable[[Writer], Awaitable[None]], backlog: int = 0
) -> RecordingListener:
    listener = RecordingListener()

    async def run() -> None:
        writer = Writer(spool, lambda: backlog, listener)
        await scenario(writer)
        await writer.close()

    asyncio.run(run())
    return listener


def test_requests_that_wait_share_one_fsync(tmp_path: Path) -> None:
    spool = BlockingSpool(tmp_path)

    async def scenario(writer: Writer) -> None:
        spool.unblocked.clear()
        first = asyncio.create_task(writer.append(DAY, [b"0\n"]))
        await asyncio.sleep(0.05)
        rest = [asyncio.create_task(writer.append(DAY, [b"%d\n" % n])) for n in (1, 2, 3)]
        await asyncio.sleep(0.05)
        assert not first.done()
        spool.unblocked.set()
        await asyncio.gather(first, *rest)

    listener = with_writer(spool, scenario)
    assert spool.commits == [(DAY, b"0\n"), (DAY, b"1\n2\n3\n")]
    assert len(listener.fsync_seconds) == 2


def test_each_day_is_appended_separately(tmp_path: Path) -> None:
    spool = BlockingSpool(tmp_path)

    async def scenario(writer: Writer) -> None:
        days = (DAY, DAY, DAY + 1, DAY)
        await asyncio.gather(*[writer.append(day, [b"x\n"]) for day in days])

    with_writer(spool, scenario)
    assert spool.commits == [(DAY, b"x\nx\n"), (DAY + 1, b"x\n"), (DAY, b"x\n")]


@pytest.mark.parametrize("problem", [OSError(28, "No space left on device"), ValueError("odd")])
def test_a_disk_error_is_503_until_the_disk_recovers(tmp_path: Path, problem: Exception) -> None:
    spool = BlockingSpool(tmp_path)

    async def scenario(writer: Writer) -> None:
        spool.error = problem
        with pytest.raises(Refusal) as refused:
            await writer.append(DAY, [b"lost\n"])
        assert refused.value.status == 503
        spool.error = None
        await writer.append(DAY, [b"stored\n"])

    assert len(with_writer(spool, scenario).failures) == 1
    assert spool.completed == [b"stored\n"]


def test_a_segment_that_cannot_be_completed_does_not_stop_the_writer(tmp_path: Path) -> None:
    spool = FailingRotation(tmp_path, seal_seconds=0)

    async def scenario(writer: Writer) -> None:
        await writer.append(DAY, [b"1\n"])
        await asyncio.wait_for(writer.append(DAY, [b"2\n"]), 5)

    assert "could not complete" in with_writer(spool, scenario).failures[0]
    assert spool.commits == [(DAY, b"1\n"), (DAY, b"2\n")]


def test_a_full_backlog_is_503(tmp_path: Path) -> None:
    async def scenario(writer: Writer) -> None:
        with pytest.raises(Refusal) as refused:
            await writer.append(DAY, [b"x\n"])
        assert refused.value.status == 503

    with_writer(BlockingSpool(tmp_path, backlog_bytes=10), scenario, backlog=11)


def test_an_old_segment_is_completed(tmp_path: Path) -> None:
    clock = SimulatedClock(datetime(2026, 11, 15, tzinfo=UTC))
    spool = BlockingSpool(tmp_path, clock, seal_seconds=3600)

    async def scenario(writer: Writer) -> None:
        await writer.append(DAY, [b"x\n"])
        clock.advance(timedelta(minutes=59))
        await writer.append(DAY, [b"y\n"])
        assert not spool.completed
        clock.advance(timedelta(minutes=1))
        for _ in range(50):
            await asyncio.sleep(0.05)
            if spool.completed:
                break
        assert spool.completed == [b"x\ny\n"]

    with_writer(spool, scenario)


def test_close_writes_pending_lines_and_completes_the_segment(tmp_path: Path) -> None:
    spool = BlockingSpool(tmp_path)
    waiting = []

    async def scenario(writer: Writer) -> None:
        waiting.append(asyncio.create_task(writer.append(DAY, [b"x\n"])))
        await asyncio.sleep(0)

    with_writer(spool, scenario)
    assert spool.completed == [b"x\n"]
    assert waiting[0].done()
