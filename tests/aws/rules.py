"""What a proxy before AWS may do to a request instead of passing it on."""

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random

from tests.aws import answers
from tests.aws.answers import LOST, Answer, refusal
from tests.aws.calls import Call, Need

PATIENCE = 60.0

Forward = Callable[[Call], Answer]
Rule = Callable[[Call, Forward], Answer | None]
"""An answer of its own, or None when the rule is not about this call."""


@dataclass(frozen=True)
class Denied:
    """A policy without one permission, on everything or on what begins as a pattern says."""

    permission: str
    resource: str = ""
    why: str = ""

    def __call__(self, call: Call, forward: Forward) -> Answer | None:
        refused = [need for need in call.needs if self._covers(need)]
        if refused and call.action == "DeleteObjects" and call.service == "s3":
            return self._some(call, refused, forward)
        if refused:
            return answers.denied(call, refused[0], self.why)
        if call.action in ("GetObject", "HeadObject"):
            return self._hidden(call, forward)
        return None

    def _covers(self, need: Need) -> bool:
        named = re.match(self.resource, need.resource) is not None
        return need.permission == self.permission and named

    def _some(self, call: Call, refused: list[Need], forward: Forward) -> Answer:
        kept = [need.resource for need in call.needs if need not in refused]
        if kept:
            headers = {k: v for k, v in call.headers.items() if not re.search("md5|checksum", k)}
            forward(replace(call, body=answers.deletion(kept), headers=headers))
        return answers.partly_deleted(call, refused, kept)

    def _hidden(self, call: Call, forward: Forward) -> Answer | None:
        """Who may not list is not told that an object is not there."""
        need = Need("s3:ListBucket", call.key)
        if not self._covers(need):
            return None
        answer = forward(call)
        return answers.denied(call, need) if answer.status == 404 else answer


@dataclass(frozen=True)
class Refuses:
    """Answers calls of an action, on what begins as named, always with the same."""

    action: str
    status: int
    code: str
    key: str = ""

    def __call__(self, call: Call, forward: Forward) -> Answer | None:
        if self.action in ("", call.action) and call.key.startswith(self.key):
            return refusal(call, self.status, self.code, "as the test wants it")
        return None


# Trouble that passes


def slow_down(call: Call, forward: Forward) -> Answer:
    if call.service == "adls":
        busy = refusal(call, 503, "ServerBusy", "The server is busy.")
        return replace(busy, headers={**busy.headers, "Retry-After": "1"})
    if call.service == "s3":
        return refusal(call, 503, "SlowDown", "Please reduce your request rate.")
    name = "Throttling" if call.service == "sts" else "ThrottlingException"
    return refusal(call, 400, name, "Rate exceeded")


def too_many(call: Call, forward: Forward) -> Answer:
    if call.service not in ("s3", "adls"):
        return slow_down(call, forward)
    return refusal(call, 429, "TooManyRequests", "Please reduce your request rate.")


def internal(call: Call, forward: Forward) -> Answer:
    name = "InternalError" if call.service in ("s3", "adls") else "InternalServiceException"
    return refusal(call, 500, name, "We encountered an internal error. Please try again.")


def done_but_500(call: Call, forward: Forward) -> Answer:
    """The request is carried out, and its answer says that it was not."""
    forward(call)
    return internal(call, forward)


def done_but_silent(call: Call, forward: Forward) -> Answer:
    """The request is carried out, and the connection ends before the answer."""
    forward(call)
    return LOST


def silent(call: Call, forward: Forward) -> Answer:
    """The connection ends, and nothing was done."""
    return LOST


def half(call: Call, forward: Forward) -> Answer:
    """The request is carried out, and the connection ends in the middle of the answer."""
    answer = forward(call)
    return replace(answer, cut=len(answer.body) // 2) if len(answer.body) > 1 else answer


Trouble = Callable[[Call, Forward], Answer]
TROUBLES: tuple[Trouble, ...] = (
    slow_down,
    too_many,
    internal,
    done_but_500,
    done_but_silent,
    silent,
    half,
)


class Sometimes:
    """Trouble at random, with a share of all calls."""

    def __init__(self, seed: int, share: float, kinds: Iterable[Trouble] = TROUBLES) -> None:
        self._random, self._share, self._kinds = Random(seed), share, tuple(kinds)
        self._lock = threading.Lock()
        self.told: list[tuple[str, str]] = []

    def __call__(self, call: Call, forward: Forward) -> Answer | None:
        with self._lock:
            if self._random.random() >= self._share:
                return None
            kind = self._random.choice(self._kinds)
            self.told.append((kind.__name__, str(call)))
        return kind(call, forward)


class Once:
    """Trouble for the first call, or some first calls, that a test picks."""

    def __init__(self, trouble: Trouble, picks: Callable[[Call], bool], times: int = 1) -> None:
        self._trouble, self._picks, self._left = trouble, picks, times
        self._lock = threading.Lock()

    def __call__(self, call: Call, forward: Forward) -> Answer | None:
        with self._lock:
            if not self._left or not self._picks(call):
                return None
            self._left -= 1
        return self._trouble(call, forward)

    @property
    def is_over(self) -> bool:
        return self._left == 0


@dataclass
class Kills:
    """Ends the caller's process at the n-th call that a test picks, before or after it is done."""

    picks: Callable[[Call], bool]
    number: int = 0
    after: bool = False
    victim: "Future[int]" = field(default_factory=Future)
    """The caller's process id, as soon as it is known."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, call: Call, forward: Forward) -> Answer | None:
        with self._lock:
            if not self.picks(call):
                return None
            self.number -= 1
            if self.number != -1:
                return None
        if self.after:
            forward(call)
        os.kill(self.victim.result(PATIENCE), signal.SIGKILL)
        return LOST


# Credentials that do not last


@dataclass
class Expiring:
    """A role's credentials are good for so many seconds and refused from then on."""

    seconds: float
    until: dict[str, float] = field(default_factory=dict)
    refused: list[Call] = field(default_factory=list)

    def __call__(self, call: Call, forward: Forward) -> Answer | None:
        if call.action == "AssumeRole":
            return self._given(forward(call))
        if time.monotonic() <= self.until.get(call.token, float("inf")):
            return None
        self.refused.append(call)
        status = 400 if call.service in ("s3", "glue") else 403
        return refusal(call, status, "ExpiredToken", "The provided token has expired.")

    def _given(self, answer: Answer) -> Answer:
        """The answer of STS with another end, and a token that tells it from those before."""
        ends = (datetime.now(UTC) + timedelta(seconds=self.seconds)).isoformat()
        token = f"token-{len(self.until)}-{time.monotonic_ns()}"
        self.until[token] = time.monotonic() + self.seconds
        body = _within("Expiration", ends, answer.body)
        return replace(answer, body=_within("SessionToken", token, body))


def _within(tag: str, text: str, body: bytes) -> bytes:
    return re.sub(rf"(<{tag}>)[^<]*".encode(), rb"\g<1>" + text.encode(), body)
