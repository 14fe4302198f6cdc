"""The tables that the catalog refused to register, with the runs whose changes it lacks.

Their files are published, so only the names have to be kept, not the stages of the runs.
"""

from collections.abc import Callable, Mapping

from pydantic import Field, ValidationError

from eventlake.errors import EventLakeError, InvalidSettings
from eventlake.ledger.commits import Ledger
from eventlake.model import report
from eventlake.model.report import run_stamp
from eventlake.model.values import FrozenModel
from eventlake.stores.damage import damaged

REPORTS = f"{report.DATABASE}.{report.TABLE}"
"""The key of the table of reports; the keys of other tables have no dot."""


class Refusal(FrozenModel):
    """The last error of a table, and the runs whose changes are not registered."""

    error: str
    runs: tuple[str, ...]


class Unregistered(FrozenModel):
    """The refused tables of a source."""

    tables: dict[str, Refusal] = Field(default_factory=dict)


def read_refusals(ledger: Ledger) -> dict[str, Refusal]:
    """The refused tables of a source; empty if its catalog entries are complete."""
    try:
        data = ledger.store.read(_path(ledger))
    except InvalidSettings:  # there is no such object
        return {}
    return _parse(ledger, data).tables


def describe_refusals(refusals: Mapping[str, Refusal]) -> tuple[str, ...]:
    """For each refused table: since when the catalog lacks it, why, and what to do."""
    return tuple(
        f"the catalog lacks data of {name} since {run_stamp(min(refusal.runs))[:16]} "
        f"({len(refusal.runs)} run{'s' if len(refusal.runs) > 1 else ''}): {refusal.error}; once "
        "this is fixed, the next run or `eventlake repair` registers it"
        for name, refusal in refusals.items()
    )


def add_refusals(ledger: Ledger, run_id: str, errors: Mapping[str, EventLakeError]) -> None:
    """Record that the catalog lacks a run's changes to these tables."""

    def add(tables: dict[str, Refusal]) -> None:
        for name, error in errors.items():
            runs = tables[name].runs if name in tables else ()
            unique = tuple(dict.fromkeys((*runs, run_id)))
            tables[name] = Refusal(error=str(error), runs=unique)

    if errors:
        _update(ledger, add)


def remove_refusals(ledger: Ledger, registered: Mapping[str, Refusal]) -> None:
    """Remove the runs of refusals that are registered now; those that others added stay."""

    def remove(tables: dict[str, Refusal]) -> None:
        for name, done in registered.items():
            if name in tables:
                runs = tuple(run for run in tables[name].runs if run not in done.runs)
                tables[name] = tables[name].model_copy(update={"runs": runs})
                if not runs:
                    del tables[name]

    if registered:
        _update(ledger, remove)


def _update(ledger: Ledger, change: Callable[[dict[str, Refusal]], None]) -> None:
    def update(data: bytes | None) -> bytes | None:
        before = Unregistered() if data is None else _parse(ledger, data)
        tables = dict(before.tables)
        change(tables)
        return Unregistered(tables=tables).to_json() if tables != before.tables else None

    ledger.store.update(_path(ledger), update)
    ledger.store.fsync_with_parents(_path(ledger))  # before the stage of the run is removed


def _parse(ledger: Ledger, data: bytes) -> Unregistered:
    try:
        return Unregistered.from_json(data)
    except ValidationError as problem:
        reason = problem.errors()[0]["msg"]
        remedy = "delete it and run `eventlake repair`"
        raise damaged(ledger.store, _path(ledger), reason, remedy) from problem


def _path(ledger: Ledger) -> str:
    return f"{ledger.path}/catalog/unregistered.json"
