"""Whether the kernels land what the oracle lands, whatever the lines are."""

import json
import random
from collections import Counter
from datetime import datetime
from typing import Any

import pyarrow as pa

from eventlake.model.settings import source_settings
from eventlake.model.types import plain
from tests.kernel_lake import KernelLake
from tests.oracle import Oracle, Settings

CASES: list[dict[str, Any]] = [
    {},
    {"naming": "native"},
    {"naming": "warehouse"},
    {"max_columns": 22},
    {"table_prefix": "shop", "date_partition": "year/month/day"},
    {"dedup_days": 0, "skip_events": ("signed_up", "Order Completed", "page")},
    {"dedup_days": 1, "date_partition": "day"},
]


def name(case: dict[str, Any]) -> str:
    return ",".join(case) or "defaults"


def agree(lines: list[bytes], case: dict[str, Any], seed: int) -> None:
    """Load the lines in two halves, each in three files, and compare after each."""
    rng = random.Random(seed)
    suppressed = frozenset({"u2"}) if seed % 2 else frozenset()
    oracle = Oracle(Settings(suppressed=suppressed, **case))
    lake = KernelLake(source_settings(source="web", **case), suppressed)
    cut = len(lines) // 2
    for part in (lines[:cut], lines[cut:]):
        files = {f"f{n}": part[n::3] for n in range(3)}
        lake.rejected.clear()
        lake.rescued = 0
        result = oracle.load(files)
        lake.load(files, block_lines=rng.choice([7, 50, 1000]))
        assert Counter(lake.rejected) == Counter(result.quarantine)
        assert lake.rescued == result.rescued
        compare(oracle, lake)


def compare(oracle: Oracle, lake: KernelLake) -> None:
    partitions = lake.settings.date_partition.columns
    assert set(lake.schemas) == set(oracle.tables)
    for table, state in oracle.tables.items():
        schema = lake.schemas[table]
        assert [(c.name, str(c.type)) for c in schema.columns] == list(state.columns.items()), table
        ours = Counter(comparable(row, ()) for row in rows_of(lake.tables[table]))
        theirs = Counter(comparable(row, partitions) for row in state.rows)
        assert ours == theirs, difference(table, ours, theirs)


def rows_of(tables: list[pa.Table]) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in row.items() if value is not None}
        for table in tables
        for row in table.to_pylist()
    ]


def comparable(row: dict[str, Any], partitions: tuple[str, ...]) -> str:
    cells = ((k, v) for k, v in row.items() if k not in partitions)
    return repr(sorted((k, cell(k, v)) for k, v in cells))


def cell(column: str, value: Any) -> Any:
    if column == "_rescued_data":
        return rescued(value)
    return str(value) if isinstance(value, datetime) else value


def rescued(text: str) -> list[str]:
    """Paths and values; one dotted path may stand for two, and a number's spelling is free."""
    numbers = {"parse_int": plain, "parse_float": plain}
    return sorted(map(repr, json.loads(text, object_pairs_hook=list, **numbers)))


def difference(table: str, ours: Counter[str], theirs: Counter[str]) -> str:
    extra, missing = list((ours - theirs).elements()), list((theirs - ours).elements())
    return f"{table}\nours alone:\n{extra[:1]}\noracle alone:\n{missing[:1]}"
