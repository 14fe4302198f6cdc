"""The events that people are told about."""

from enum import StrEnum


class Severity(StrEnum):
    """Whether somebody has to look."""

    PROBLEM = "problem"
    RECOVERY = "recovery"
    INFO = "info"


EVENTS = {
    "sync_failed": Severity.PROBLEM,
    "sync_partial": Severity.PROBLEM,
    "stale": Severity.PROBLEM,
    "silent": Severity.PROBLEM,
    "quarantine_share": Severity.PROBLEM,
    "run_slow": Severity.PROBLEM,
    "replay_failed": Severity.PROBLEM,
    "erasure_failed": Severity.PROBLEM,
    "clock_set_back": Severity.PROBLEM,
    "server_away": Severity.PROBLEM,
    "recovered": Severity.RECOVERY,
    "fresh": Severity.RECOVERY,
    "replay_finished": Severity.INFO,
    "erasure_finished": Severity.INFO,
    "schema_changed": Severity.INFO,
    "settings_changed": Severity.INFO,
    "test": Severity.INFO,
}
"""All events, and how serious each is."""
TEST = "test"
DEFAULT_EVENTS = frozenset(
    name for name, severity in EVENTS.items() if severity is not Severity.INFO
)
"""What a channel without rules gets: everything that is wrong, and when it is right again."""
ALL, DEFAULT = "*", "default"
"""What a rule may name instead of events: all, and those that a channel without rules gets."""
