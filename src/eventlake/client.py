"""A client of the HTTP API of `eventlake up`, for orchestrators and scripts.

from eventlake.client import Client

with Client("https://lake.example.com", token="el_…") as client:
    run = client.sync("web", key="2026-11-17/web")  # waits for its end, raises if it fails
    print(run["state"], run["lake_run"])

It needs httpx and nothing of Spark: `pip install 'eventlake[client]'`.
"""

import json
import os
from collections.abc import Callable, Mapping
from secrets import token_hex
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import quote, urlsplit

from eventlake import errors
from eventlake.clock import SYSTEM_CLOCK, Clock
from eventlake.errors import EventLakeError, InvalidSettings, NotFound, Unavailable

PREFIX = "/api/v1"
URL_VARIABLE, TOKEN_VARIABLE = "EVENTLAKE_URL", "EVENTLAKE_TOKEN"
DEFAULT_URL = "http://127.0.0.1:8400"
REQUEST_SECONDS = 130.0
"""Longer than the checks of a lake may take."""
WAIT_SECONDS = 20
"""How long one request waits for the end of a run."""
PATIENCE_SECONDS = 300.0
"""How long a server may be away, such as for an upgrade, while a run is waited for."""
RETRY_SECONDS = 2.0
FAILED_STATES = ("failed", "cancelled")

Run = dict[str, Any]
"""A run as the API has it: docs/api.md#run."""


class Reply(NamedTuple):
    """A reply of the API."""

    status: int
    headers: Mapping[str, str]
    body: bytes


Send = Callable[[str, str, bytes, dict[str, str]], Reply]
"""Sends a request: method, path, body and headers. Raises Unavailable without a reply."""


class RunFailed(EventLakeError):
    """A run ended without landing all it should have; `run` has its state, error and code."""

    def __init__(self, run: Run) -> None:
        reason = run["error"] or run["reason"] or "no reason was given"
        super().__init__(f"run {run['id']} of {run['kind']} is {run['state']}: {reason}")
        self.run = run
        self.code = run["error_code"] or errors.Conflict.code


class Client:
    """Asks the API, and raises the error that a reply has.

    The URL is by default that of EVENTLAKE_URL, else of a server on this machine; the token is that
    of EVENTLAKE_TOKEN. `send` replaces HTTP, for calls within one process.
    """

    def __init__(
        self,
        url: str = "",
        token: str = "",
        *,
        send: Send | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Raises InvalidSettings for a URL that is none."""
        self._clock = clock or SYSTEM_CLOCK
        self._close = _do_nothing
        if send is None:
            address = url or os.environ.get(URL_VARIABLE) or DEFAULT_URL
            send, self._close = _open_http(address, token or os.environ.get(TOKEN_VARIABLE, ""))
        self._send = send

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the server."""
        self._close()

    # Runs

    def sync(
        self,
        source: str,
        *,
        wait: bool = True,
        key: str = "",
        queue: bool = True,
        seconds: float | None = None,
    ) -> Run:
        """Sync a source now and return the run, with `wait` when it has ended.

        A repeated call with the same `key` finds the run of the first call, for a day; if that run
        has failed, it starts another one. While the source has an active run, a new one waits for
        it, or without `queue` Conflict is raised. Raises RunFailed for a run that failed or was
        cancelled, and Unavailable if it has not ended after `seconds`; it goes on then.
        """
        run = self.start_sync(source, key=key, queue=queue)
        return self.wait_for_run(run["id"], seconds=seconds) if wait else run

    def start_sync(self, source: str, *, key: str = "", queue: bool = True) -> Run:
        """Start a sync and return the run without waiting for it; `key` as in `sync`."""
        path = "/runs" + ("?queue=true" if queue else "")
        return self._start(path, {"source": source}, key)

    def start_replay(self, source: str, *, key: str = "", **options: Any) -> dict[str, Any]:
        """Start a replay of a source and return it; a repeated call with `key` finds it again.

        The options are those of `POST /replays` in docs/api.md, such as `since` and `until`.
        """
        headers = {"idempotency-key": key or token_hex(16)}
        reply = self._send_again("POST", "/replays", {"source": source, **options}, headers)
        found: dict[str, Any] = parse_reply(reply)
        return found

    def get_run(self, run: int, *, wait: int = 0) -> Run:
        """A run; with `wait`, when it has ended, or after so many seconds, at most 60."""
        found: Run = self.ask("GET", f"/runs/{run}" + (f"?wait={wait}" if wait else ""))
        return found

    def has_ended(self, run: int) -> bool:
        """Return whether a run has ended; raises RunFailed if it failed or was cancelled."""
        found = self.get_run(run)
        if found["state"] in FAILED_STATES:
            raise RunFailed(found)
        return bool(found["ended_at"])

    def list_runs(self, source: str = "", *, limit: int = 100) -> list[Run]:
        """The newest runs, of one source or of all, at most 500."""
        path = f"/runs?limit={limit}" + (f"&source={quote(source, safe='')}" if source else "")
        found: list[Run] = self.ask("GET", path)["items"]
        return found

    def wait_for_run(self, run: int, *, seconds: float | None = None) -> Run:
        """Wait for the end of a run and return it; raises RunFailed, and Unavailable, as `sync`.

        A server that does not answer for less than five minutes is asked again.
        """
        begun = heard = self._clock.monotonic()
        while True:
            rest = WAIT_SECONDS if seconds is None else begun + seconds - self._clock.monotonic()
            try:
                found = self.get_run(run, wait=max(0, min(WAIT_SECONDS, int(rest))))
                heard = self._clock.monotonic()
            except Unavailable:
                if self._clock.monotonic() - heard > PATIENCE_SECONDS:
                    raise
                self._clock.sleep(RETRY_SECONDS)
                continue
            if found["state"] in FAILED_STATES:
                raise RunFailed(found)
            if found["ended_at"]:
                return found
            if seconds is not None and self._clock.monotonic() - begun >= seconds:
                raise Unavailable(f"run {run} is {found['state']} after {seconds:g} seconds")

    def cancel_run(self, run: int) -> Run:
        """Cancel a run; one that has committed by then finishes all the same."""
        found: Run = self.ask("POST", f"/runs/{run}/cancel")
        return found

    def _start(self, path: str, body: Mapping[str, Any], key: str) -> Run:
        """Start a run once per key; the next key is used if the run of this one has failed."""
        first, number = key or token_hex(16), 1
        while True:
            own = first if number == 1 else f"{first}/{number}"
            reply = self._send_again("POST", path, body, {"idempotency-key": own})
            run: Run = parse_reply(reply)
            if "idempotency-replayed" not in reply.headers:
                return run
            current = self.get_run(run["id"])
            if current["state"] not in FAILED_STATES:
                return current
            number += 1

    # Requests

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Return the JSON of the reply to a request below `/api/v1`; None if it has none."""
        return parse_reply(self._request(method, path, body, headers))

    def change(self, method: str, path: str, body: Any) -> Any:
        """Change what is at a path now, whoever changed it last."""
        seen = self._request("GET", path, None, {})
        parse_reply(seen)
        return self.ask(method, path, body, **{"if-match": seen.headers["etag"]})

    def list_all(self, path: str) -> list[Any]:
        """The items of all pages of a list."""
        items, after = list[Any](), ""
        while True:
            page = self.ask("GET", f"{path}?limit=500{after}")
            items += page["items"]
            if page["next"] is None:
                return items
            after = f"&after={page['next']}"

    def _send_again(
        self, method: str, path: str, body: Mapping[str, Any], headers: dict[str, str]
    ) -> Reply:
        """Send a request with an idempotency key; once more if there was no reply."""
        try:
            reply = self._request(method, path, body, headers)
        except Unavailable:
            self._clock.sleep(RETRY_SECONDS)
            return self._request(method, path, body, headers)
        return reply

    def _request(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Reply:
        content = b"" if body is None else json.dumps(body).encode()
        kind = {} if body is None else {"content-type": "application/json"}
        return self._send(method, PREFIX + path, content, {**kind, **headers})


def parse_reply(reply: Reply) -> Any:
    """The JSON of a reply; raises the error that it has."""
    try:
        value = json.loads(reply.body or b"null")
    except ValueError:
        raise Unavailable(
            f"the server answered {reply.status} without JSON: is it EventLake?"
        ) from None
    if reply.status < 400:
        return value
    value = value if isinstance(value, dict) else {}
    code, detail = value.get("code", ""), value.get("detail", "")
    if reply.status == 404:
        raise NotFound(detail)
    kinds = [one for one in vars(errors).values() if isinstance(one, type)]
    found = [one for one in kinds if issubclass(one, EventLakeError) and one.code == code]
    problem = (found[0] if found else EventLakeError)(detail)
    problem.code = code
    raise problem


def _open_http(url: str, token: str) -> tuple[Send, Callable[[], None]]:
    """A function that sends requests to the server at a URL, and one that closes connections."""
    parsed = urlsplit(url)
    if parsed.scheme not in ("http", "https") or not parsed.hostname:
        raise InvalidSettings(f"{URL_VARIABLE} is {url!r}: give a URL such as {DEFAULT_URL}")
    try:
        import httpx  # noqa: PLC0415 - the other parts of the module work without it
    except ModuleNotFoundError:
        raise InvalidSettings("httpx is not installed: pip install 'eventlake[client]'") from None
    own = {"authorization": f"Bearer {token}"} if token else {}
    http = httpx.Client(base_url=url.rstrip("/"), headers=own, timeout=REQUEST_SECONDS)

    def send(method: str, path: str, body: bytes, headers: dict[str, str]) -> Reply:
        try:
            reply = http.request(method, path, content=body, headers=headers)
        except httpx.HTTPError as problem:
            raise Unavailable(f"{url} does not answer: {problem}") from problem
        return Reply(reply.status_code, reply.headers, reply.content)

    return send, http.close


def _do_nothing() -> None:
    """There are no connections to close."""
