"""From files to Parquet through every step, without Spark, against the oracle."""

import gzip
import random
from collections import Counter
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests import adversary, lakes, regular
from tests.agreement import CASES, comparable, difference, rows_of
from tests.oracle import Oracle, Settings, catalog_name

from eventlake.model.settings import source_settings
from eventlake.model.tunables import ReadTunables, Tunables


def lines_of(seed: int) -> list[bytes]:
    """Adversarial lines and regular lines, without line breaks."""
    lines = [*adversary.lines(seed, 250), *regular.events(seed, 250)]
    random.Random(seed).shuffle(lines)
    return [line for line in lines if b"\n" not in line]


@pytest.mark.parametrize("seed", range(6))
def test_what_lands_is_what_the_oracle_says(seed: int, tmp_path: Path) -> None:
    """Two loads of some files, read by some tasks, with large tables and small ones."""
    dice = random.Random(seed)
    usual = ReadTunables()
    tunables = ReadTunables(
        spill_bytes=dice.choice([0, 2000, 20_000, usual.spill_bytes]),
        parse_bytes=dice.choice([5000, 50_000, usual.parse_bytes]),
        held_bytes=dice.choice([20_000, usual.held_bytes]),
    )
    options = {
        "tunables": Tunables(read=tunables),
        "runner": partial(lakes.InlineRunner, parallelism=dice.choice([1, 2, 5])),
    }
    case, suppressed = CASES[seed % len(CASES)], frozenset({"u2"}) if seed % 2 else frozenset()
    oracle = Oracle(Settings(suppressed=suppressed, **case))
    settings = source_settings(source="web", **case)
    lines, lake = lines_of(2000 + seed), tmp_path / "lake"
    for half in range(2):
        files = dice.choice([1, 3, 8])
        folder = tmp_path / f"raw{half}"
        folder.mkdir()
        logs = {}
        for n in range(files):
            name = folder / f"{n}.gz"
            logs[name.as_uri()] = lines[half::2][n::files]
            name.write_bytes(gzip.compress(b"\n".join(logs[name.as_uri()]), 1))
        wanted = oracle.load(logs)
        done = lakes.load([folder], lake, settings=settings, suppressed=suppressed, **options)
        assert done.counts.rescued == wanted.rescued
        assert done.counts.quarantined == len(wanted.quarantine)
    check(lake, oracle, settings.date_partition.columns)


def check(lake: Path, oracle: Oracle, partitions: tuple[str, ...]) -> None:
    found = lakes.read_contents(lake)
    assert found.problems == ()
    assert found.strays == []
    prefix = oracle.settings.table_prefix
    tables = {catalog_name(name, prefix): state for name, state in oracle.tables.items()}
    assert found.catalog.keys() == tables.keys()
    for table, state in tables.items():
        columns = [(column["name"], column["type"]) for column in found.catalog[table][0]]
        assert columns == list(state.columns.items()), table
        files = sorted((lake / found.catalog[table][3]).rglob("*.parquet"))
        rows = rows_of([pq.read_table(file, partitioning=None) for file in files])
        ours = Counter(comparable(row, ()) for row in rows)
        theirs = Counter(comparable(row, partitions) for row in state.rows)
        assert ours == theirs, difference(table, ours, theirs)


WAYS = {
    "one task": (1, ReadTunables()),
    "two tasks": (2, ReadTunables(spill_bytes=0)),
    "two tasks and a gathering": (2, ReadTunables()),
}


@pytest.mark.parametrize("way", WAYS)
def test_duplicates_tell_of_columns_whichever_way_they_go(way: str, tmp_path: Path) -> None:
    """Nothing of the second load lands, and its column is made."""
    parallelism, tunables = WAYS[way]
    options = {
        "tunables": Tunables(read=tunables),
        "runner": partial(lakes.InlineRunner, parallelism=parallelism),
    }
    settings, lake = source_settings(source="web"), tmp_path / "lake"
    for folder, properties in ((tmp_path / "a", '{"n":1}'), (tmp_path / "b", '{"n":1,"late":2}')):
        folder.mkdir()
        for file in range(2):
            lines = [
                f'{{"type":"track","event":"E","messageId":"m{n}","properties":{properties},'
                f'"receivedAt":"2026-11-01T0{n % 3}:00:00Z"}}'
                for n in range(file * 5, file * 5 + 5)
            ]
            (folder / f"{file}.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
        done = lakes.load([folder], lake, settings=settings, **options)
    assert (done.counts.landed, done.counts.duplicates) == (0, 10)
    found = lakes.assert_complete(lake)
    assert found.rows == 10
    columns, *_ = found.catalog["e"]
    assert "late" in {column["name"] for column in columns}
