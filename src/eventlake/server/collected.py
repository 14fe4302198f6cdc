"""What this process's collector has received of each source since it started."""

from eventlake.model.values import FrozenModel


class CollectedEvents(FrozenModel):
    """Events of a source since the server started, and how far its archive is behind."""

    accepted: int = 0
    rejected: int = 0
    lag_seconds: float = 0.0
