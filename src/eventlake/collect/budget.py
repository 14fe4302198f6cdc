"""The bytes that requests may hold together."""

from eventlake.collect.limits import Limits
from eventlake.collect.refusal import overloaded
from eventlake.collect.request import Request

REQUEST_BYTES = 4096
"""What a request costs beside its header and its body."""


class Budget:
    """Counts the bytes of all requests, and refuses the one that would exceed the limit.

    Requests without a valid key share a part of it, so that they cannot crowd out the others.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.used = 0
        self.keyless = 0

    def hold(self, request: Request, body_bytes: int) -> None:
        """Set how many bytes a request holds beside its header; raise a 429 when over the limit."""
        size = REQUEST_BYTES + request.header_bytes + body_bytes
        more = size - request.held
        if more > 0 and not self._fits(request, more):
            raise overloaded()
        self._add(request, more)

    def keyed(self, request: Request) -> None:
        """Count a request among those with a valid key."""
        if not request.keyed:
            request.keyed = True
            self.keyless -= request.held

    def release(self, request: Request) -> None:
        """Give back all that a request holds."""
        self._add(request, -request.held)

    def _fits(self, request: Request, more: int) -> bool:
        if self.used + more > self._limits.inflight_bytes:
            return False
        return request.keyed or self.keyless + more <= self._limits.keyless_bytes

    def _add(self, request: Request, more: int) -> None:
        request.held += more
        self.used += more
        if not request.keyed:
            self.keyless += more
