"""Group commit: who waits together, and what they are told."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from threading import Event

import pytest

from eventlake.collect.limits import Limits
from eventlake.collect.refusal import Refusal
from eventlake.collect.spool import Spool
from eventlake.collect.writer import Writer

DAY = 1794700800000


class Disk(Spool):
    """A spool that waits until it may, and remembers what went together."""

    def __init__(self, folder: Path, **limits: float) -> None:
        super().__init__(folder, Limits(**limits), self.complete)  # type: ignore[arg-type]
        self.commits: list[tuple[int, bytes]] = []
        self.completed: list[bytes] = []
        self.may = Event()
        self.may.set()
        self.fails: Exception | None = None

    def complete(self, segment: object) -> None:
        self.completed.append(segment.path.read_bytes())  # type: ignore[attr-defined]

    def append(self, day: int, lines: object) -> float:
        self.may.wait(5)
        if self.fails:
            raise self.fails
        self.commits.append((day, b"".join(lines)))  # type: ignore[arg-type]
        return super().append(day, lines)  # type: ignore[arg-type]


class Stuck(Disk):
    """A spool that cannot complete a segment."""

    def rotate(self) -> None:
        raise OSError(5, "Input/output error")


class Heard:
    """What the writer said."""

    def __init__(self) -> None:
        self.syncs: list[float] = []
        self.troubles: list[str] = []

    def synced(self, seconds: float) -> None:
        self.syncs.append(seconds)

    def trouble(self, message: str) -> None:
        self.troubles.append(message)


def with_writer(disk: Disk, story: Callable[[Writer], Awaitable[None]], backlog: int = 0) -> Heard:
    heard = Heard()

    async def told() -> None:
        writer = Writer(disk, lambda: backlog, heard)
        await story(writer)
        await writer.close()

    asyncio.run(told())
    return heard


def test_requests_that_wait_share_one_sync(tmp_path: Path) -> None:
    disk = Disk(tmp_path)

    async def story(writer: Writer) -> None:
        disk.may.clear()
        first = asyncio.create_task(writer.append(DAY, [b"0\n"]))
        await asyncio.sleep(0.05)
        rest = [asyncio.create_task(writer.append(DAY, [b"%d\n" % n])) for n in (1, 2, 3)]
        await asyncio.sleep(0.05)
        assert not first.done()
        disk.may.set()
        await asyncio.gather(first, *rest)

    heard = with_writer(disk, story)
    assert disk.commits == [(DAY, b"0\n"), (DAY, b"1\n2\n3\n")]
    assert len(heard.syncs) == 2


def test_days_are_not_mixed(tmp_path: Path) -> None:
    disk = Disk(tmp_path)

    async def story(writer: Writer) -> None:
        days = (DAY, DAY, DAY + 1, DAY)
        await asyncio.gather(*[writer.append(day, [b"x\n"]) for day in days])

    with_writer(disk, story)
    assert disk.commits == [(DAY, b"x\nx\n"), (DAY + 1, b"x\n"), (DAY, b"x\n")]


@pytest.mark.parametrize("problem", [OSError(28, "No space left on device"), ValueError("odd")])
def test_a_disk_that_fails_is_503_and_works_again_by_itself(
    tmp_path: Path, problem: Exception
) -> None:
    disk = Disk(tmp_path)

    async def story(writer: Writer) -> None:
        disk.fails = problem
        with pytest.raises(Refusal) as refused:
            await writer.append(DAY, [b"lost\n"])
        assert refused.value.status == 503
        disk.fails = None
        await writer.append(DAY, [b"kept\n"])

    assert len(with_writer(disk, story).troubles) == 1
    assert disk.completed == [b"kept\n"]


def test_a_segment_that_cannot_be_completed_does_not_stop_the_writer(tmp_path: Path) -> None:
    disk = Stuck(tmp_path, seal_seconds=0)

    async def story(writer: Writer) -> None:
        await writer.append(DAY, [b"1\n"])
        await asyncio.wait_for(writer.append(DAY, [b"2\n"]), 5)

    assert "could not complete" in with_writer(disk, story).troubles[0]
    assert disk.commits == [(DAY, b"1\n"), (DAY, b"2\n")]


def test_a_full_backlog_is_503(tmp_path: Path) -> None:
    async def story(writer: Writer) -> None:
        with pytest.raises(Refusal) as refused:
            await writer.append(DAY, [b"x\n"])
        assert refused.value.status == 503

    with_writer(Disk(tmp_path, backlog_bytes=10), story, backlog=11)


def test_a_segment_is_completed_when_it_is_old(tmp_path: Path) -> None:
    disk = Disk(tmp_path, seal_seconds=0.1)

    async def story(writer: Writer) -> None:
        await writer.append(DAY, [b"x\n"])
        for _ in range(50):
            await asyncio.sleep(0.05)
            if disk.completed:
                break
        assert disk.completed == [b"x\n"]

    with_writer(disk, story)


def test_closing_writes_what_waits_and_completes_it(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    waiting = []

    async def story(writer: Writer) -> None:
        waiting.append(asyncio.create_task(writer.append(DAY, [b"x\n"])))
        await asyncio.sleep(0)

    with_writer(disk, story)
    assert disk.completed == [b"x\n"]
    assert waiting[0].done()
