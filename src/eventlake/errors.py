"""Every failure EventLake tells a user about, sorted by what the user does next.

EventLakeError
├── InvalidSettings           mend a setting, an option or a path; nothing has started
├── InsufficientPermissions   grant what the message names, then run again
├── LimitExceeded             a catalog is full: the other tables went on
├── Conflict                  another run of this source committed first; run again
├── Unavailable               network, throttling, 5xx after retries; run again later
├── Damaged                   restore the objects of the lake that the message names
└── Internal                  ours to mend; the message names the log
"""


class EventLakeError(Exception):
    """The root; `code` is what reports call `error_code`."""

    code = "EventLake.Internal"


class InvalidSettings(EventLakeError):
    """A setting, option or path that cannot work as given."""

    code = "EventLake.InvalidSettings"


class MissingTable(InvalidSettings):
    """A table that the catalog does not have."""


class InsufficientPermissions(EventLakeError):
    """The store, catalog or cluster said no."""

    code = "EventLake.InsufficientPermissions"


class LimitExceeded(EventLakeError):
    """A limit of the catalog was reached."""

    code = "EventLake.LimitExceeded"


class Conflict(EventLakeError):
    """Another run of the same source committed first."""

    code = "EventLake.Conflict"


class Unavailable(EventLakeError):
    """The other side did not answer, also after retries."""

    code = "EventLake.Unavailable"


class Damaged(EventLakeError):
    """Objects of the lake that are gone, or do not hold what was written to them."""


class Internal(EventLakeError):
    """Something that should not happen."""
