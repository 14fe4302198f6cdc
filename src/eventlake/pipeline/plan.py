"""Plan: which files are new, what is known, and what a crash has left behind."""

import time
from collections.abc import Sequence

from eventlake.errors import InvalidSettings
from eventlake.ledger import Ledger, State, is_dead, sources, staged_runs
from eventlake.model.commit import Input, Plan
from eventlake.model.report import Problems
from eventlake.model.settings import FIXED, SourceSettings
from eventlake.pipeline.finish import Lake, clean, finish, publish
from eventlake.ports import Progress
from eventlake.stores import Store


def recover(lake: Lake, ledger: Ledger, progress: Progress) -> tuple[str, ...]:
    """Roll committed runs forward; the runs that died before their commit are returned."""
    runs = ledger.state().runs
    dead = []
    for run_id in staged_runs(lake.store, ledger.folder):
        gone = is_dead(lake.store, run_id)
        if run_id in runs:
            commit = ledger.commit(runs[run_id])
            if gone:
                clean(lake, ledger, commit, finish(lake, commit, progress), progress)
            else:
                publish(lake, commit, Problems(), progress)  # it is at it: lend a hand
        elif gone:
            dead.append(run_id)
    return tuple(dead)


def make_plan(state: State, settings: SourceSettings, inputs: Sequence[Input]) -> Plan:
    """A run over files that no commit names yet, with all that is known."""
    return Plan(
        run_id=f"{time.time_ns():019d}",
        settings=settings,
        base=state.sequence,
        inputs=tuple(inputs),
        tables=state.tables,
        ids=state.ids,
    )


def check_settings(state: State, settings: SourceSettings) -> None:
    """Refuse what cannot change while the source has tables."""
    if state.settings is None or not state.tables:
        return
    for name in FIXED:
        was, given = getattr(state.settings, name), getattr(settings, name)
        if was != given:
            raise InvalidSettings(
                f"{name} is {str(given)!r}, and the tables of {settings.source} were made with "
                f"{str(was)!r}: keep that, or delete the tables and load again"
            )


def check_neighbours(store: Store, settings: SourceSettings) -> None:
    """Refuse what would make two sources write over each other."""
    for folder in sources(store):
        other = Ledger(store, folder).settings()
        if other is None or folder == settings.folder:
            continue
        if settings.source_id == other.source_id:
            raise InvalidSettings(
                f"partition_by_slug is {settings.partition_by_slug}, and the tables of "
                f"{other.source} were made with {other.partition_by_slug}: keep that, or delete "
                "the tables and load again"
            )
        if settings.database == other.database and _overlap(
            settings.table_prefix, other.table_prefix
        ):
            raise InvalidSettings(
                f"database is {settings.database!r}, which {other.source} writes to: choose "
                "another, or give each of the two a table_prefix of its own"
            )


def _overlap(one: str, other: str) -> bool:
    """Whether two prefixes can make the same table's name: `a` and `a_b` can."""
    short, long = sorted((f"{one}_", f"{other}_"), key=len)
    return not (one and other) or long.startswith(short)


def warnings(state: State, settings: SourceSettings) -> tuple[str, ...]:
    """What a user should know of settings that may change."""
    if state.settings is None or not state.tables:
        return ()
    return tuple(
        f"{name} was {getattr(state.settings, name)!r} and is {getattr(settings, name)!r} now: "
        "this makes new tables, and what landed before is not in them without a replay"
        for name in ("database", "table_prefix")
        if getattr(state.settings, name) != getattr(settings, name)
    )
