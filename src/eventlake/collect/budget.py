"""The memory limit that all requests share."""

from eventlake.collect.limits import Limits
from eventlake.collect.refusal import overloaded
from eventlake.collect.request import Request
from eventlake.collect.source import Source

REQUEST_BYTES = 4096
"""Fixed cost of a request, added to its header and body."""


class Budget:
    """Counts the bytes of all requests, and refuses the one that would exceed the limit.

    Requests without a valid key share a part of it, so that they cannot crowd out the others.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.used_bytes = 0
        self.keyless_bytes = 0

    def reserve(self, request: Request, body_bytes: int) -> None:
        """Set a request's reservation to its fixed cost, its header and `body_bytes`.

        Raises a 429 `Refusal`, and changes nothing, when that would exceed the limit, or that of
        requests without a key. A smaller reservation is never refused.
        """
        size = REQUEST_BYTES + request.header_bytes + body_bytes
        growth, limits = size - request.reserved_bytes, self._limits
        is_full = self.used_bytes + growth > limits.inflight_bytes or (
            request.source is None and self.keyless_bytes + growth > limits.keyless_bytes
        )
        if growth > 0 and is_full:
            raise overloaded()
        self._add(request, growth)

    def set_source(self, request: Request, source: Source) -> None:
        """Set the source of a request without one: it counts among those with a valid key."""
        request.source = source
        self.keyless_bytes -= request.reserved_bytes

    def release(self, request: Request) -> None:
        """Release a request's whole reservation; may be repeated."""
        self._add(request, -request.reserved_bytes)

    def _add(self, request: Request, growth: int) -> None:
        """Add bytes to a request's reservation and to the totals; negative ones are released."""
        request.reserved_bytes += growth
        self.used_bytes += growth
        if request.source is None:
            self.keyless_bytes += growth
