"""Plan a run: check its settings, collect what the run needs."""

from collections import defaultdict
from collections.abc import Sequence

from eventlake.errors import InvalidSettings
from eventlake.kernels.dedupe import DAY_MICROS
from eventlake.ledger import State
from eventlake.model.claims import names_of
from eventlake.model.commit import IdFile, Input, Plan
from eventlake.model.settings import FIXED, SourceSettings
from eventlake.model.types import Type

MERGE_FILES = 8
"""Files of similar size that are merged into one."""
MAX_MERGED_ROWS = 4_000_000
"""Ids of a merged file, at most: a merge happens in memory."""
WEEK = 7 * DAY_MICROS


def make_plan(
    state: State,
    settings: SourceSettings,
    inputs: Sequence[Input],
    time_ns: int,
    retired_seconds: float,
    retyped: dict[str, dict[str, Type]] | None = None,
) -> Plan:
    """Plan a run over new inputs at `time_ns`, starting from the ledger's state.

    It deletes index files that were replaced more than `retired_seconds` ago. `retyped` are new
    types of columns, by table.
    """
    retired_before = time_ns - retired_seconds * 10**9
    return Plan(
        run_id=f"{time_ns:019d}",
        settings=settings,
        base=state.sequence,
        inputs=tuple(inputs),
        tables=state.tables,
        ids=state.ids,
        merges=plan_merges(state.ids),
        deletes=tuple(path for path, run in state.retired.items() if int(run) < retired_before),
        renamed=is_renamed(state, settings),
        retyped=retyped or {},
    )


def plan_merges(files: Sequence[IdFile]) -> tuple[tuple[IdFile, ...], ...]:
    """Choose groups of index files to merge: similar in size, ids received in the same week.

    A merged file of several weeks would be opened for windows that few of its ids are in.
    """
    groups: defaultdict[tuple[int, int], list[IdFile]] = defaultdict(list)
    for file in files:
        if file.first // WEEK == file.last // WEEK:
            groups[file.first // WEEK, _size_class(file.rows)].append(file)
    full = (group[:MERGE_FILES] for group in groups.values() if len(group) >= MERGE_FILES)
    return tuple(
        tuple(group) for group in full if sum(one.rows for one in group) <= MAX_MERGED_ROWS
    )


def _size_class(rows: int) -> int:
    """The exponent of the largest power of eight that is at most `rows`."""
    return (rows.bit_length() - 1) // 3


def is_renamed(state: State, settings: SourceSettings) -> bool:
    """Whether the settings give existing tables other catalog names than the last commit."""
    before = state.settings
    return before is not None and bool(state.tables) and names_of(before) != names_of(settings)


def check_settings(state: State, settings: SourceSettings) -> None:
    """Raise `InvalidSettings` if a setting differs that is fixed while the source has tables."""
    if state.settings is None or not state.tables:
        return
    for name in FIXED:
        before, now = getattr(state.settings, name), getattr(settings, name)
        if before != now:
            raise InvalidSettings(
                f"{name} is {str(now)!r}, but the tables of {settings.source} were created with "
                f"{str(before)!r}: use that, or delete the tables and load again"
            )


def rename_warnings(state: State, settings: SourceSettings) -> tuple[str, ...]:
    """Explain to the user which catalog names changed, and what happens to the old tables."""
    if state.settings is None or not is_renamed(state, settings):
        return ()
    return tuple(
        f"{name} changed from {getattr(state.settings, name)!r} to {getattr(settings, name)!r}: "
        "all tables are registered under the new name with all their partitions; the old "
        "tables stay in the catalog without new partitions until you drop them"
        for name in ("database", "table_prefix")
        if getattr(state.settings, name) != getattr(settings, name)
    )
