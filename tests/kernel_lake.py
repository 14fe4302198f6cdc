"""A load through the kernels only, in one process without Spark or a store, for fast tests."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from eventlake.kernels.chunk import Chunk, TableReader, build_chunk
from eventlake.kernels.dedupe import DAY_MICROS, Ids, find_duplicates, hash_ids
from eventlake.kernels.jsontext import TooDeep
from eventlake.kernels.land import MaskedChunk, land_chunks
from eventlake.kernels.lines import is_utf8
from eventlake.kernels.route import LINE_BITS, EventBuffer, Router, Rules, split_deep
from eventlake.model.naming import RESCUED
from eventlake.model.schema import TableSchema, budget_used, new_table
from eventlake.model.settings import SourceSettings
from eventlake.pipeline.evolve import evolve


@dataclass
class KernelLake:
    """A lake in memory, loaded by the product's kernels."""

    settings: SourceSettings
    suppressed: frozenset[str] = frozenset()
    schemas: dict[str, TableSchema] = field(default_factory=dict)
    tables: dict[str, list[pa.Table]] = field(default_factory=lambda: defaultdict(list))
    ids: list[Ids] = field(default_factory=list)
    rejected: list[tuple[str, str, int, bytes]] = field(default_factory=list)
    rescued: int = 0

    def load(self, files: Mapping[str, list[bytes]], block_lines: int = 1000) -> None:
        names = sorted(files)
        rules = Rules(
            self.settings.naming,
            self.settings.table_prefix,
            frozenset(self.settings.skip_events),
            self.suppressed,
        )
        readers: dict[str, TableReader] = {}
        chunks = []
        for number, name in enumerate(names):
            for start in range(0, len(files[name]), block_lines):
                lines = files[name][start : start + block_lines]
                router = Router(rules)
                router.route_lines(
                    lines, (number << LINE_BITS) + start + 1, is_utf8(b"\n".join(lines))
                )
                for table, buffer in router.buffers.items():
                    chunk = self._build_chunk(table, buffer, router, readers)
                    chunks.append((table, buffer, chunk))
                self.rejected += [
                    (
                        r.reason,
                        names[r.place >> LINE_BITS],
                        r.place & ((1 << LINE_BITS) - 1),
                        r.raw,
                    )
                    for r in router.rejected
                ]
        self._land_chunks([one for one in chunks if one[2] is not None])

    def _build_chunk(
        self, table: str, buffer: EventBuffer, router: Router, readers: dict[str, TableReader]
    ) -> Chunk | None:
        if table not in readers:
            schema = self.schemas.get(table) or new_table(table, buffer.call, self.settings.naming)
            readers[table] = TableReader(
                buffer.call,
                self.settings.naming,
                self.settings.date_partition,
                schema.types if table in self.schemas else {},
                self.settings.max_columns - budget_used(schema.types),
            )
        while buffer.events:
            lines, _, received, _ = zip(*buffer.events, strict=True)
            try:
                return build_chunk(lines, np.array(received), readers[table])
            except TooDeep:
                buffer.events, deep = split_deep(buffer.events)
                router.rejected += deep
        return None

    def _land_chunks(self, chunks: list[tuple[str, EventBuffer, Chunk]]) -> None:
        if not chunks:
            return
        _, ids, received, at = zip(
            *(e for _, buffer, _ in chunks for e in buffer.events), strict=True
        )
        run = Ids(*hash_ids(ids), np.array(received, np.int64))
        places = np.array(at, np.int64)
        duplicate = find_duplicates(run, places, self.ids, self.settings.dedup_days * DAY_MICROS)
        kept = run.at(~duplicate)
        self.ids.append(kept.at(np.lexsort((kept.low, kept.high))))
        first, by_table = 0, defaultdict(list)
        for table, buffer, chunk in chunks:
            drop = duplicate[first : first + len(buffer.events)]
            first += len(buffer.events)
            by_table[table].append((buffer, chunk, MaskedChunk(chunk.batch, ~drop)))
        for table, parts in by_table.items():
            before = self.schemas.get(table) or new_table(
                table, parts[0][0].call, self.settings.naming
            )
            observations = [one for _, chunk, _ in parts for one in chunk.observations]
            growth = evolve(before, observations, self.settings.max_columns)
            rows = land_chunks([part for _, _, part in parts], growth.schema, len(growth.added))
            if table not in self.schemas and not rows.table.num_rows:
                continue
            self.rescued += rows.rescued
            growth = growth.with_rescued() if rows.rescued else growth
            assert (RESCUED in rows.table.column_names) == (RESCUED in growth.schema.types)
            assert rows.table.column_names == [column.name for column in growth.schema.columns]
            self.schemas[table] = growth.schema
            self.tables[table].append(rows.table)
