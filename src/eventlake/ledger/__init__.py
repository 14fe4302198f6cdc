"""A source's ledger: its commits, the state they add up to, and the stages of its runs."""

from eventlake.ledger.commits import Ledger
from eventlake.ledger.sources import (
    find_folder,
    find_source,
    list_ledgers,
    list_sources,
    resolve_source,
)
from eventlake.ledger.stage import (
    DEAD_AFTER,
    Lease,
    Stage,
    has_ended,
    is_dead,
    is_running,
    lease_path,
    list_staged_runs,
    read_lease,
    remove_stage,
)
from eventlake.ledger.state import State
from eventlake.ledger.unregistered import (
    REPORTS,
    Refusal,
    add_refusals,
    describe_refusals,
    read_refusals,
    remove_refusals,
)

__all__ = [
    "DEAD_AFTER",
    "REPORTS",
    "Lease",
    "Ledger",
    "Refusal",
    "Stage",
    "State",
    "add_refusals",
    "describe_refusals",
    "find_folder",
    "find_source",
    "has_ended",
    "is_dead",
    "is_running",
    "lease_path",
    "list_ledgers",
    "list_sources",
    "list_staged_runs",
    "read_lease",
    "read_refusals",
    "remove_refusals",
    "remove_stage",
    "resolve_source",
]
