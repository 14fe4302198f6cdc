"""What is true of a source: its commits, the state they add up to, its runs in progress."""

from eventlake.ledger.commits import Ledger
from eventlake.ledger.sources import check_ledgers, find_source, known_sources, sources
from eventlake.ledger.stage import (
    DEAD_AFTER,
    Lease,
    Stage,
    is_dead,
    lease_path,
    read_lease,
    remove_stage,
    staged_runs,
)
from eventlake.ledger.state import State

__all__ = [
    "DEAD_AFTER",
    "Lease",
    "Ledger",
    "Stage",
    "State",
    "check_ledgers",
    "find_source",
    "is_dead",
    "known_sources",
    "lease_path",
    "read_lease",
    "remove_stage",
    "sources",
    "staged_runs",
]
