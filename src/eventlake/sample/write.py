"""Writing a sample to disk."""

from collections.abc import Callable, Iterator
from pathlib import Path

from isal import isal_zlib

from eventlake.sample.lines import Resend, chunk_blocks
from eventlake.sample.plan import FilePlan, plan_files
from eventlake.sample.spec import SampleSpec, SampleSummary
from eventlake.sample.world import World, build_world

Progress = Callable[[int], None]

GZIP_LEVEL = 1
# Tells zlib to write a gzip header; the one it writes has no name and no time in it.
GZIP_FORMAT = 31


def make_sample(spec: SampleSpec, out: Path, progress: Progress | None = None) -> SampleSummary:
    """Write the sample as gzip files of JSON lines into the folder `out`, which is made if missing.

    Files of other samples that are there stay, unless a new one has the same name. `progress` is
    called now and then with the number of events written since it was called last.
    """
    out.mkdir(parents=True, exist_ok=True)
    world = build_world(spec)
    waiting: list[Resend] = []
    sizes = []
    for plan in plan_files(spec):
        blocks = _file_blocks(world, plan, waiting, progress or _ignore)
        sizes.append(_write_gzip(out / plan.name, blocks))
    return SampleSummary(
        files=len(sizes),
        events=spec.events,
        duplicates=spec.duplicate_count,
        bad=spec.bad_count,
        bytes=sum(packed for packed, _ in sizes),
        json_bytes=sum(plain for _, plain in sizes),
    )


def _file_blocks(
    world: World, plan: FilePlan, waiting: list[Resend], progress: Progress
) -> Iterator[bytes]:
    for chunk in plan.chunks:
        yield from chunk_blocks(world, chunk, waiting)
        progress(chunk.count)


def _write_gzip(path: Path, blocks: Iterator[bytes]) -> tuple[int, int]:
    """Write one file; returns its size and the size of what is in it."""
    plain = 0
    packer = isal_zlib.compressobj(GZIP_LEVEL, isal_zlib.DEFLATED, GZIP_FORMAT)
    with path.open("wb") as file:
        for block in blocks:
            plain += len(block)
            file.write(packer.compress(block))
        file.write(packer.flush())
        return file.tell(), plain


def _ignore(_: int) -> None:
    """Progress that nobody asked for."""
