"""What a run has to respect of its tables' format."""

from eventlake.errors import InvalidSettings
from eventlake.lake import Lake
from eventlake.ledger import State
from eventlake.model.commit import Commit, CommitKind, Plan
from eventlake.model.settings import NewTables
from eventlake.model.tables import catalog_name, table_path

KEEPING = (CommitKind.REPLAY, CommitKind.COMPACT)
"""Commits whose removed files stay for readers of older versions; others remove rows for good."""


def check_format(lake: Lake, state: State) -> None:
    """Raise `InvalidSettings` if a source's tables are not in the format of the lake's settings."""
    if state.settings is None or not state.tables or state.format == lake.format.name:
        return
    raise InvalidSettings(
        f"format is {lake.format.name!r}, but the tables of {state.settings.source} are "
        f"{state.format.capitalize()} tables: put format = {state.format!r} into a file of the "
        "lake's settings and use that, or use another lake"
    )


def check_tables(lake: Lake, plan: Plan) -> None:
    """Raise `InvalidSettings` if the run may change a table that the format cannot write.

    A run that reads inputs may change all tables but those that it skips, others only those that
    they name. Any table can be dropped.
    """
    if plan.replaces and not plan.inputs:
        return
    named = plan.removes.keys() | plan.retyped.keys()
    names = plan.tables.keys() - list_skipped(plan) if plan.inputs else plan.tables.keys() & named
    tables = [plan.tables[name] for name in sorted(names)]
    lake.format.check(
        {
            f"{plan.settings.database}.{catalog_name(plan.settings, one)}": table_path(
                lake.layout, plan.settings, one
            )
            for one in tables
        }
    )


def list_skipped(plan: Plan) -> frozenset[str]:
    """The settings' `skip_events`, and the names of tables whose catalog name is among them."""
    skip = frozenset(plan.settings.skip_events)
    return skip.union(name for name, table in plan.tables.items() if table.catalog_name in skip)


def list_known(plan: Plan) -> frozenset[str] | None:
    """The tables that the source has, and the settings' `land_events`; None if new tables land."""
    if plan.settings.new_tables is NewTables.LAND:
        return None
    return frozenset(plan.settings.land_events).union(plan.tables)


def with_format(lake: Lake, commit: Commit) -> Commit:
    """The commit with the lake's format, and whether the files that it removes are kept."""
    keeps_removed = lake.format.versioned and commit.kind in KEEPING
    return commit.model_copy(update={"format": lake.format.name, "keeps_removed": keeps_removed})
