"""Every error that a user can get, sorted by what to do next.

EventLakeError
├── InvalidSettings           correct a setting, an option or a path; nothing has started
├── InsufficientPermissions   grant the permission in the message, then run again
├── LimitExceeded             a limit of the catalog; the other tables were landed
├── Conflict                  another run of this source committed first; run again
├── Unavailable               network, throttling, 5xx after retries; run again later
├── Damaged                   restore the objects that the message names
└── Internal                  a bug in EventLake; the message names the log
"""

from collections.abc import Sequence


class EventLakeError(Exception):
    """Base of all errors; `code` is the `error_code` of reports."""

    code = "EventLake.Internal"


class InvalidSettings(EventLakeError):
    """An invalid setting, option or path."""

    code = "EventLake.InvalidSettings"


class MissingTable(InvalidSettings):
    """A table that is not in the catalog."""


class NotFound(InvalidSettings):
    """A source, lake, connection or run that the workspace or the lake does not have."""


class AmbiguousTables(InvalidSettings):
    """Tables that contradict each other; `rows` shows how, with the headings first."""

    def __init__(self, message: str, rows: Sequence[tuple[str, ...]]) -> None:
        super().__init__(message)
        self.rows = tuple(rows)


class InsufficientPermissions(EventLakeError):
    """The store, catalog or cluster denied access.

    `grant` has what to paste to grant it, if that is known: a statement of an IAM policy, a
    command of the Azure CLI, or SQL.
    """

    code = "EventLake.InsufficientPermissions"

    def __init__(self, message: str, grant: str = "") -> None:
        super().__init__(message)
        self.grant = grant


class LimitExceeded(EventLakeError):
    """A limit of the catalog was reached."""

    code = "EventLake.LimitExceeded"


class Conflict(EventLakeError):
    """Another run of the same source committed first."""

    code = "EventLake.Conflict"


class SourceBusy(Conflict):
    """Another run of the same source has not ended; `run` is its number."""

    def __init__(self, message: str, run: int) -> None:
        super().__init__(message)
        self.run = run


class Changed(Conflict):
    """An object that somebody else changed meanwhile."""


class Cancelled(BaseException):
    """A run was asked to stop. Not an EventLakeError, which some code ignores or converts."""

    code = Conflict.code


class Unavailable(EventLakeError):
    """A service did not answer, even after retries."""

    code = "EventLake.Unavailable"


class Damaged(EventLakeError):
    """Objects of the lake that are gone or whose content is corrupt."""


class Internal(EventLakeError):
    """An unexpected failure."""
