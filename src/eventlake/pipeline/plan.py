"""Plan a run: check its settings, collect what the run needs."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from eventlake.errors import InvalidSettings
from eventlake.kernels.dedupe import DAY_MICROS
from eventlake.ledger import State
from eventlake.model.claims import names_of
from eventlake.model.commit import DataFile, IdFile, Input, Plan, Replacement
from eventlake.model.layout import DatePartition
from eventlake.model.settings import FIXED, SourceSettings, rebuild_command
from eventlake.model.tunables import Tunables
from eventlake.model.types import Type
from eventlake.pipeline.history import History

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
    tunables: Tunables,
    retyped: dict[str, dict[str, Type]] | None = None,
) -> Plan:
    """Plan a run over new inputs at `time_ns`, starting from the ledger's state. Writes nothing.

    It deletes index files and kept data files that were replaced long enough ago. `retyped` are new
    types of columns, by table.
    """
    return Plan(
        run_id=f"{time_ns:019d}",
        settings=settings,
        base=state.sequence,
        inputs=tuple(inputs),
        tables=state.tables,
        ids=state.ids,
        merges=plan_merges(state.ids),
        deletes=(
            *_list_older(state.retired, time_ns, tunables.retired_seconds),
            *_list_older(state.kept_files, time_ns, tunables.kept_seconds),
        ),
        renamed=is_renamed(state, settings),
        retyped=retyped or {},
    )


def _list_older(paths: Mapping[str, str], time_ns: int, seconds: float) -> Iterator[str]:
    """Yield the paths whose run is older than `seconds`; runs are named by their time."""
    limit = time_ns - seconds * 10**9
    return (path for path, run in paths.items() if int(run) < limit)


def make_replay_plan(
    state: State,
    history: History,
    settings: SourceSettings,
    replaces: Replacement,
    time_ns: int,
    *,
    infer: bool = False,
) -> Plan:
    """Plan the replacement of rows: the inputs to read again, and the files to remove.

    With `infer`, tables of which all files are replaced get their columns and types anew. So do all
    tables if their naming changes, even without it. Files that another program has written stay.
    Writes nothing.
    """
    removes = find_replaced_files(history, replaces, (state.settings or settings).date_partition)
    complete = [name for name, files in removes.items() if len(files) == len(history.files[name])]
    before = state.settings or settings
    is_renaming = (before.naming, before.columns) != (settings.naming, settings.columns)
    left_out = {(one.uri, one.fingerprint) for one in replaces.left_out}
    inputs = (
        one
        for identity, one in sorted(history.inputs.items())
        if replaces.overlaps(one) and identity not in left_out
    )
    return Plan(
        run_id=f"{time_ns:019d}",
        settings=settings,
        base=state.sequence,
        inputs=tuple(inputs),
        tables=state.tables,
        ids=() if replaces.is_whole else state.ids,
        renamed=is_renamed(state, settings),
        replaces=replaces,
        removes=removes,
        infer=tuple(state.tables) if is_renaming else tuple(complete) if infer else (),
        pinned=state.pinned,
    )


def find_replaced_files(
    history: History, replaces: Replacement, by: DatePartition
) -> dict[str, tuple[DataFile, ...]]:
    """Return the live files with rows to replace, by table; tables without such files are left out.

    Files that another program has written are never among them. `by` is how the files are
    partitioned.
    """
    tables = replaces.tables or sorted(history.files)
    files = {
        name: tuple(
            file
            for file in history.files[name].values()
            if file.path not in history.adopted
            and replaces.since <= by.start(file.partition) < replaces.until
        )
        for name in tables
    }
    return {name: of_table for name, of_table in files.items() if of_table}


def plan_merges(files: Sequence[IdFile]) -> tuple[tuple[IdFile, ...], ...]:
    """Choose groups of index files to merge: similar in size, ids received in the same week.

    A group has `MERGE_FILES` files and at most `MAX_MERGED_ROWS` ids. A merged file of several
    weeks would be opened for windows that few of its ids are in.
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
    """The exponent of the largest power of eight that is at most `rows`; -1 for no rows."""
    return (rows.bit_length() - 1) // 3


def is_renamed(state: State, settings: SourceSettings) -> bool:
    """Whether the settings give existing tables other catalog names than the last commit.

    False for a source without tables.
    """
    before = state.settings
    return before is not None and bool(state.tables) and names_of(before) != names_of(settings)


def check_settings(state: State, settings: SourceSettings) -> None:
    """Raise `InvalidSettings` if a setting differs that is fixed while the source has tables.

    The message names the setting, both values, and the command that rebuilds the source.
    """
    if state.settings is None or not state.tables:
        return
    for name in FIXED:
        before, now = getattr(state.settings, name), getattr(settings, name)
        if before != now:
            raise InvalidSettings(
                f"{name} is {str(now)!r}, but the tables of {settings.source} were created with "
                f"{str(before)!r}: use that, or rebuild the source with "
                f"{rebuild_command(settings.source, name, now)}"
            )


def rename_warnings(state: State, settings: SourceSettings) -> tuple[str, ...]:
    """Return a warning for each setting that renames the tables in the catalog; () if none does.

    It says what happens to the old tables.
    """
    if state.settings is None or not is_renamed(state, settings):
        return ()
    return tuple(
        f"{name} changed from {getattr(state.settings, name)!r} to {getattr(settings, name)!r}: "
        "all tables are registered under the new name with all their partitions; the old "
        "tables stay in the catalog without new partitions until you drop them"
        for name in ("database", "table_prefix")
        if getattr(state.settings, name) != getattr(settings, name)
    )
