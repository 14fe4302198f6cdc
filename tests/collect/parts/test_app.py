"""The HTTP side, without a socket and without a disk."""

import asyncio
import gzip
import hmac
import json
import tracemalloc
from base64 import b64encode, urlsafe_b64encode
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import pytest

from eventlake.collect.app import BATCHES, CALLS, GIF, App
from eventlake.collect.keys import Gate, basic_user
from eventlake.collect.limits import MAX_BODY, Limits
from eventlake.collect.refusal import Refusal, unavailable
from eventlake.collect.replies import encode_reply
from eventlake.collect.request import Reply, Request

KEY = "the-key"
EVENT = {"userId": "u", "event": "Hello", "groupId": "g", "previousId": "p"}


@dataclass
class Paper:
    """Remembers what was appended, or refuses."""

    lines: list[bytes] = field(default_factory=list)
    refuses: Refusal | None = None
    hold: asyncio.Event | None = None

    async def append(self, day: int, lines: list[bytes]) -> None:
        if self.hold:
            await self.hold.wait()
        if self.refuses:
            raise self.refuses
        self.lines += lines

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]


@dataclass
class Desk:
    """An app with everything it writes to."""

    app: App
    events: Paper
    rejects: Paper

    def ask(self, *request: Any, **more: Any) -> "Answer":
        return asyncio.run(ask(self.app, *request, **more))


def desk(**changes: Any) -> Desk:
    events, rejects = Paper(), Paper()
    given: dict[str, Any] = {"project": "web", "gate": Gate(KEY), "gauges": dict, **changes}
    return Desk(App(events=events, rejects=rejects, **given), events, rejects)


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def basic(key: str = KEY) -> dict[str, str]:
    return {"authorization": "Basic " + b64encode(f"{key}:".encode()).decode()}


async def ask(
    app: App, method: str, path: str, body: Any = b"", headers: dict[str, str] | None = None
) -> Answer:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    path, _, query = path.partition("?")
    given = {"content-length": str(len(data)), **(headers or {})}
    request = Request(
        method=method,
        path=path,
        query=query.encode(),
        headers={name.encode(): value.encode() for name, value in given.items()},
        peer="203.0.113.7",
    )
    try:
        app.admit(request)
        app.budget.hold(request, len(data))
    except Refusal as refusal:
        app.budget.release(request)
        return answer_of(app.refused(refusal))
    request.body += data
    return answer_of(await app.answer(request))


def answer_of(reply: Reply) -> Answer:
    head, _, body = encode_reply(reply, b"", close=reply.close, head_only=False).partition(
        b"\r\n\r\n"
    )
    fields = [line.partition(": ")[::2] for line in head.decode().splitlines()[1:]]
    return Answer(reply.status, dict(fields), body)


def post(at: Desk, path: str, body: Any, **headers: str) -> Answer:
    return at.ask("POST", path, body, {**basic(), **headers})


@pytest.mark.parametrize(("path", "call"), sorted(CALLS.items()))
def test_every_call_has_its_path(path: str, call: str) -> None:
    at = desk()
    answer = post(at, path, EVENT)
    assert (answer.status, answer.json) == (200, {"success": True})
    assert [event["type"] for event in at.events.events] == [call]


@pytest.mark.parametrize("path", sorted(BATCHES))
def test_every_batch_has_its_path(path: str) -> None:
    at = desk()
    assert post(at, path, {"batch": [{"type": "page", **EVENT}] * 3}).status == 200
    assert len(at.events.lines) == 3


def test_a_trailing_slash_is_no_other_path() -> None:
    assert post(desk(), "/v1/track/", EVENT).status == 200


def test_what_the_browser_library_says_of_itself_is_welcome_and_forgotten() -> None:
    at = desk()
    assert at.ask("POST", "/v1/m", {"series": []}).status == 200
    assert not at.events.lines


@pytest.mark.parametrize(
    ("headers", "event", "code"),
    [
        ({}, EVENT, "no_write_key"),
        (basic(""), EVENT, "no_write_key"),
        (basic("other"), EVENT, "invalid_write_key"),
        (basic("other"), {**EVENT, "writeKey": KEY}, "invalid_write_key"),
        ({}, {**EVENT, "writeKey": "other"}, "invalid_write_key"),
        ({}, {**EVENT, "writeKey": 5}, "no_write_key"),
        ({"authorization": "Bearer x"}, EVENT, "no_write_key"),
        ({"authorization": "Basic !"}, EVENT, "no_write_key"),
    ],
)
def test_without_the_key_nobody_comes_in(headers: Any, event: Any, code: str) -> None:
    at = desk()
    answer = at.ask("POST", "/v1/track", event, headers)
    assert (answer.status, answer.json["code"]) == (401, code)
    assert KEY not in answer.body.decode()
    assert not at.events.lines


def test_the_key_may_be_in_the_body() -> None:
    at = desk()
    assert at.ask("POST", "/v1/track", {**EVENT, "writeKey": KEY}).status == 200
    batch = {"batch": [{"type": "page", **EVENT}], "writeKey": KEY}
    assert at.ask("POST", "/v1/batch", batch).status == 200
    assert KEY.encode() not in b"".join(at.events.lines)


def test_a_disabled_source_says_so() -> None:
    answer = post(desk(gate=Gate(KEY, enabled=False)), "/v1/track", EVENT)
    assert (answer.status, answer.json["code"]) == (401, "source_disabled")


def test_a_key_does_not_show_itself() -> None:
    assert KEY not in repr(Gate(KEY))


def test_keys_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(given: bytes, wanted: bytes) -> bool:
        compared.append((given, wanted))
        return True

    monkeypatch.setattr(hmac, "compare_digest", compare)
    assert desk().ask("POST", "/v1/track", EVENT, basic("other")).status == 200
    assert desk().ask("POST", "/v1/track", {**EVENT, "writeKey": "third"}).status == 200
    assert compared == [(b"other", KEY.encode()), (b"third", KEY.encode())]


def test_a_password_is_not_looked_at() -> None:
    assert basic_user(b"basic " + b64encode(b"key:password")) == "key"


def test_an_invalid_event_is_200_kept_and_counted() -> None:
    at = desk()
    assert post(at, "/v1/track", {"event": "x"}).status == 200
    assert not at.events.lines
    (kept,) = at.rejects.events
    assert (kept["reason"], kept["event"]) == ("no_user_anon_id", {"event": "x"})
    metrics = at.ask("GET", "/metrics").body.decode()
    assert 'eventlake_collect_rejected_total{reason="no_user_anon_id"} 1' in metrics


def test_suppressed_people_are_counted() -> None:
    at = desk(suppressed=frozenset("u"))
    assert post(at, "/v1/track", EVENT).status == 200
    assert not at.events.lines
    assert "eventlake_collect_suppressed_total 1" in at.ask("GET", "/metrics").body.decode()


@pytest.mark.parametrize("origin", [{"origin": "https://shop"}, {"content-type": "text/plain"}])
def test_browsers_get_their_address(origin: dict[str, str]) -> None:
    at = desk()
    assert post(at, "/v1/track", EVENT, **origin).status == 200
    assert at.events.events[0]["context"]["ip"] == "203.0.113.7"


def test_gzip_bodies() -> None:
    at = desk()
    body = gzip.compress(json.dumps({**EVENT, "properties": {"a": "x" * 20_000}}).encode())
    assert post(at, "/v1/track", body, **{"content-encoding": "gzip"}).status == 200
    assert len(at.events.lines) == 1


@pytest.mark.parametrize(
    ("code", "body", "headers"),
    [
        ("not_gzip", b"plain", {"content-encoding": "gzip"}),
        ("not_gzip", gzip.compress(b"{}" * 99)[:-9], {"content-encoding": "gzip"}),
        ("not_gzip", gzip.compress(b"{}") * 2, {"content-encoding": "gzip"}),
        ("encoding_not_supported", b"x", {"content-encoding": "br"}),
        ("request_too_large", gzip.compress(b" " * (MAX_BODY + 1)), {"content-encoding": "gzip"}),
        ("request_too_large", b" " * (MAX_BODY + 1), {}),
        ("not_json", b"{", {}),
    ],
)
def test_a_body_that_cannot_be_taken_is_400(code: str, body: bytes, headers: Any) -> None:
    answer = post(desk(), "/v1/batch", body, **headers)
    assert (answer.status, answer.json["code"]) == (400, code)


def test_a_small_body_cannot_become_a_large_one() -> None:
    bomb = gzip.compress(b" " * (100 << 20))
    assert len(bomb) < MAX_BODY
    at = desk()
    tracemalloc.start()
    try:
        answer = post(at, "/v1/batch", bomb, **{"content-encoding": "gzip"})
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (answer.status, answer.json["code"]) == (400, "request_too_large")
    assert most < 8 * MAX_BODY


def test_the_largest_batch_is_taken() -> None:
    body = b'{"batch":[],"pad":"'
    body += b"x" * (MAX_BODY - len(body) - 2) + b'"}'
    assert post(desk(), "/v1/batch", body).status == 200


def test_a_browser_may_ask_first() -> None:
    answer = desk().ask("OPTIONS", "/v1/track")
    assert answer.status == 204
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "x-retry-count" in answer.headers["access-control-allow-headers"]
    asked = {"access-control-request-headers": "x-of-my-own"}
    answer = desk().ask("OPTIONS", "/v1/t", b"", asked)
    assert answer.headers["access-control-allow-headers"] == "x-of-my-own"


def test_every_answer_may_be_read_by_a_page() -> None:
    for answer in (post(desk(), "/v1/track", EVENT), desk().ask("POST", "/v1/track")):
        assert answer.headers["access-control-allow-origin"] == "*"
        assert answer.headers["access-control-expose-headers"] == "retry-after"


@pytest.mark.parametrize("encode", [b64encode, urlsafe_b64encode])
def test_the_pixel_takes_an_event(encode: Any) -> None:
    at = desk()
    data = quote(encode(json.dumps({**EVENT, "writeKey": KEY, "x": "ÿ?>"}).encode()).rstrip(b"="))
    answer = at.ask("GET", f"/v1/pixel/page?data={data}")
    assert (answer.status, answer.body) == (200, GIF)
    (event,) = at.events.events
    assert (event["type"], event["context"]["ip"]) == ("page", "203.0.113.7")


@pytest.mark.parametrize("query", ["", "?data=", "?data=%ff", "?data=e30", "?data=!!!"])
def test_the_pixel_is_a_picture_whatever_comes(query: str) -> None:
    at = desk()
    answer = at.ask("GET", f"/v1/pixel/track{query}")
    assert (answer.status, answer.headers["content-type"]) == (200, "image/gif")
    assert not at.events.lines
    assert sum(at.app.metrics.rejected.values()) == 1


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/track", 405),
        ("POST", "/health", 405),
        ("GET", "/v1/nothing", 404),
        ("GET", "/v1/pixel/nothing", 404),
        ("GET", "/health", 200),
        ("GET", "/openapi.json", 200),
    ],
)
def test_other_paths(method: str, path: str, status: int) -> None:
    assert desk().ask(method, path).status == status


def test_a_disk_that_fails_is_503_and_nothing_is_counted() -> None:
    at = desk()
    at.events.refuses = unavailable()
    answer = post(at, "/v1/track", EVENT)
    assert (answer.status, answer.headers["retry-after"]) == (503, "2")
    assert at.app.metrics.accepted == 0


def test_overload_is_429_before_memory_grows() -> None:
    at = desk(limits=Limits(inflight_bytes=10_000))

    async def story() -> list[Answer]:
        at.events.hold = asyncio.Event()
        asked = [
            asyncio.create_task(ask(at.app, "POST", "/v1/track", EVENT, basic())) for _ in "12345"
        ]
        await asyncio.sleep(0.01)
        at.events.hold.set()
        answers = list(await asyncio.gather(*asked))
        return [*answers, await ask(at.app, "POST", "/v1/track", EVENT, basic())]

    answers = asyncio.run(story())
    assert [answer.status for answer in answers] == [200, 200, 429, 429, 429, 200]
    assert answers[2].headers["retry-after"] == "1"


def test_requests_without_a_key_have_a_share_of_their_own() -> None:
    at = desk(limits=Limits(inflight_bytes=40_000, keyless_bytes=10_000))

    async def story() -> list[int]:
        at.events.hold = asyncio.Event()
        keyless = [Request(method="POST", path="/v1/track") for _ in "123"]
        statuses = []
        for request in keyless:
            at.app.admit(request)
            try:
                at.app.budget.hold(request, 0)
            except Refusal as refusal:
                statuses.append(refusal.status)
        sent = [asyncio.create_task(ask(at.app, "POST", "/v1/t", EVENT, basic())) for _ in "123"]
        by_body = asyncio.create_task(ask(at.app, "POST", "/v1/t", {**EVENT, "writeKey": KEY}))
        at.app.budget.release(keyless[0])
        await asyncio.sleep(0.01)
        assert at.app.budget.keyless == keyless[1].held  # a key in the body counts once it is read
        at.events.hold.set()
        return statuses + [(await one).status for one in (*sent, by_body)]

    assert asyncio.run(story()) == [429, 200, 200, 200, 200]


def test_what_a_batch_becomes_counts_with_its_size() -> None:
    at = desk(limits=Limits(inflight_bytes=300_000))
    batch = {"context": {"a": "x" * 3_000}, "batch": [{"type": "page", **EVENT}] * 200}
    assert len(json.dumps(batch)) < 30_000
    answer = post(at, "/v1/batch", batch)
    assert (answer.status, answer.json["code"]) == (429, "too_many_requests")
    assert at.app.budget.used == 0


def test_a_failure_of_ours_is_counted_and_written_down(capsys: pytest.CaptureFixture[str]) -> None:
    at = desk()
    at.events.refuses = ValueError("a bug")  # type: ignore[assignment]
    answer = post(at, "/v1/track", EVENT)
    assert (answer.status, answer.json["code"]) == (500, "internal_error")
    assert "a bug" in capsys.readouterr().err
    assert (at.app.metrics.troubles, at.app.budget.used) == (1, 0)


def test_an_unpacked_body_counts_with_its_size() -> None:
    at = desk(limits=Limits(inflight_bytes=100_000))
    body = gzip.compress(json.dumps({"batch": [], "pad": "x" * 200_000}).encode())
    answer = post(at, "/v1/batch", body, **{"content-encoding": "gzip"})
    assert (answer.status, answer.json["code"]) == (429, "too_many_requests")
    assert post(at, "/v1/track", EVENT).status == 200


def test_metrics_are_what_prometheus_reads() -> None:
    at = desk(gauges=lambda: {"archive_lag_seconds": 1.5})
    post(at, "/v1/track", EVENT)
    at.app.metrics.synced(0.003)
    text = at.ask("GET", "/metrics").body.decode()
    assert "eventlake_collect_accepted_total 1\n" in text
    assert 'eventlake_collect_responses_total{status="200"} 1\n' in text
    assert 'eventlake_collect_fsync_seconds_bucket{le="0.005"} 1\n' in text
    assert "eventlake_collect_fsync_seconds_count 1\n" in text
    assert "eventlake_collect_archive_lag_seconds 1.5\n" in text
