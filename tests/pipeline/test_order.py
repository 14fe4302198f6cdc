"""Neither files, nor their order, nor the number of workers changes a table."""

import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

import pytest
import zstandard
from tests import adversary, lakes, oracle, processes
from tests.lakes import LakeContents
from tests.tiers import long

pytestmark = pytest.mark.spark

SAME = ("tables", "catalog", "reports", "ids", "strays", "problems")
"""Quarantine and inputs name files."""


def archive(folder: Path) -> dict[str, list[Path]]:
    """The same lines in one file, in many, and in many of three compressions."""
    lines = list(distinct([*adversary.lines(3, 400), *sample_lines(folder / "sample")]))
    return {
        "one": [write(folder / "one/0.json", lines)],
        "many": [*scatter(folder / "many", lines, seed=1, suffixes=("gz",))],
        "mixed": [*scatter(folder / "mixed", lines, seed=2, suffixes=("gz", "zst", "json"))],
    }


def sample_lines(folder: Path) -> list[bytes]:
    files = lakes.small_sample(folder, events=600, types=12)
    return [line for file in files for line in gzip.decompress(file.read_bytes()).splitlines()]


def distinct(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Only the first of different lines with one id and time: otherwise their order matters."""
    known: dict[object, bytes] = {}
    for line in lines:
        if known.setdefault(key(line), line) == line:
            yield line


def key(line: bytes) -> object:
    """An event's id and time; the line itself if it is invalid."""
    if oracle.reason_against(line):
        return line
    event, _ = oracle.parse(line)
    return event["messageId"], oracle.timestamp(event["receivedAt"])


def scatter(
    folder: Path, lines: list[bytes], seed: int, suffixes: tuple[str, ...]
) -> Iterator[Path]:
    """Forty files of shuffled lines."""
    shuffled = Random(seed).sample(lines, len(lines))
    for number in range(40):
        suffix = suffixes[number % len(suffixes)]
        yield write(folder / f"{number:02d}.{suffix}", shuffled[number::40])


def write(path: Path, lines: list[bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = b"\n".join(lines)
    if path.suffix == ".gz":
        content = gzip.compress(content)
    if path.suffix == ".zst":
        content = zstandard.compress(content)
    path.write_bytes(content)
    return path


def load_each(archives: dict[str, list[Path]], folder: Path, master: str) -> None:
    """A lake for each arrangement of the lines, all on one master."""
    for name, files in archives.items():
        lakes.load(files, folder / name, runner=lakes.SparkRunner, master=master)


def reasons(found: LakeContents) -> list[tuple[object, ...]]:
    """Reasons and raw lines of the quarantine; the details may depend on the files."""
    return sorted((reason, raw) for (reason, _, raw, _, _) in found.quarantine.elements())


def check_same(found: LakeContents, wanted: LakeContents) -> None:
    lakes.assert_same(found, wanted, SAME)
    assert reasons(found) == reasons(wanted)


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    return archive(tmp_path_factory.mktemp("archives"))


@pytest.fixture(scope="module")
def wanted(
    archives: dict[str, list[Path]], tmp_path_factory: pytest.TempPathFactory
) -> LakeContents:
    """One file, read by one process, without Spark."""
    lake = tmp_path_factory.mktemp("wanted")
    lakes.load(archives["one"], lake)
    return lakes.assert_complete(lake)


@pytest.mark.parametrize(
    ("master", "names"),
    [
        pytest.param("local[1]", ("one", "mixed"), marks=long),
        ("local[2]", ("one", "many", "mixed")),
    ],
)
def test_order_and_parallelism_do_not_matter(
    master: str,
    names: tuple[str, ...],
    archives: dict[str, list[Path]],
    wanted: LakeContents,
    tmp_path: Path,
    subtests: pytest.Subtests,
) -> None:
    chosen = {name: archives[name] for name in names}
    assert processes.finish(processes.start(load_each, chosen, tmp_path, master)) == 0
    for name in chosen:
        with subtests.test(name=name):
            check_same(lakes.read_contents(tmp_path / name), wanted)


def test_enough_comes_through(wanted: LakeContents) -> None:
    assert wanted.rows > 700
    assert len(wanted.tables) > 30
    assert len(reasons(wanted)) > 40
    assert wanted.reports[0][0]["duplicate_count"] > 50
