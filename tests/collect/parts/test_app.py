"""The tracking API without a socket and without a disk."""

import asyncio
import gzip
import json
import tracemalloc
from base64 import b64encode, urlsafe_b64encode
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import pytest

from eventlake.clock import SYSTEM_CLOCK
from eventlake.collect.app import BATCH_PATHS, CALLS_BY_PATH, GIF, App
from eventlake.collect.keys import SourceKeys, WriteKey, parse_basic_user
from eventlake.collect.limits import DEFAULTS, MAX_BODY_BYTES, Limits
from eventlake.collect.refusal import Refusal, unavailable
from eventlake.collect.replies import encode_reply
from eventlake.collect.request import Reply, Request
from eventlake.collect.source import Source
from eventlake.errors import InvalidSettings

KEY = "the-key"
EVENT = {"userId": "u", "event": "Hello", "groupId": "g", "previousId": "p"}


@dataclass
class RecordingLog:
    """Records appended lines, or raises `error`; waits for `unblocked` if that is set."""

    lines: list[bytes] = field(default_factory=list)
    error: Refusal | None = None
    unblocked: asyncio.Event | None = None

    async def append(self, day: int, lines: list[bytes]) -> None:
        if self.unblocked:
            await self.unblocked.wait()
        if self.error:
            raise self.error
        self.lines += lines

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]


@dataclass
class Harness:
    """An app with the logs that it writes to."""

    app: App
    source: Source
    events: RecordingLog
    rejects: RecordingLog

    def ask(self, *request: Any, **more: Any) -> "Response":
        return asyncio.run(ask(self.app, *request, **more))


GAUGES = {"archive_lag_seconds": 1.5, "spool_bytes": 0, "sealed_files": 0}


def make_source(name: str = "web", **changes: Any) -> Source:
    return Source(name, f"{name}-id", RecordingLog(), RecordingLog(), GAUGES.copy, **changes)


def make_harness(
    limits: Limits = DEFAULTS, *, enabled: bool = True, suppressed: frozenset[str] = frozenset()
) -> Harness:
    events, rejects = RecordingLog(), RecordingLog()
    source = Source("web", "web-id", events, rejects, GAUGES.copy, suppressed)
    app = App(SourceKeys([WriteKey(KEY, source, enabled)]), SYSTEM_CLOCK, limits)
    return Harness(app, source, events, rejects)


@dataclass
class Response:
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
) -> Response:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    path, _, query = path.partition("?")
    fields = {"content-length": str(len(data)), **(headers or {})}
    request = Request(
        method=method,
        path=path,
        query=query.encode(),
        headers={name.encode(): value.encode() for name, value in fields.items()},
        peer="203.0.113.7",
    )
    try:
        app.check_header(request)
        app.budget.reserve(request, len(data))
    except Refusal as refusal:
        app.budget.release(request)
        return parse_reply(app.make_error_reply(refusal))
    request.body += data
    return parse_reply(await app.answer(request))


def parse_reply(reply: Reply) -> Response:
    head, _, body = encode_reply(reply, b"", close=reply.close, head_only=False).partition(
        b"\r\n\r\n"
    )
    fields = [line.partition(": ")[::2] for line in head.decode().splitlines()[1:]]
    return Response(reply.status, dict(fields), body)


def post(harness: Harness, path: str, body: Any, **headers: str) -> Response:
    return harness.ask("POST", path, body, {**basic(), **headers})


@pytest.mark.parametrize(("path", "call"), sorted(CALLS_BY_PATH.items()))
def test_every_call_has_its_path(path: str, call: str) -> None:
    harness = make_harness()
    answer = post(harness, path, EVENT)
    assert (answer.status, answer.json) == (200, {"success": True})
    assert [event["type"] for event in harness.events.events] == [call]


@pytest.mark.parametrize("path", sorted(BATCH_PATHS))
def test_every_batch_has_its_path(path: str) -> None:
    harness = make_harness()
    assert post(harness, path, {"batch": [{"type": "page", **EVENT}] * 3}).status == 200
    assert len(harness.events.lines) == 3


def test_a_trailing_slash_is_ignored() -> None:
    assert post(make_harness(), "/v1/track/", EVENT).status == 200


def test_metrics_of_the_browser_library_are_ignored() -> None:
    harness = make_harness()
    assert harness.ask("POST", "/v1/m", {"series": []}).status == 200
    assert not harness.events.lines


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
def test_a_missing_or_wrong_key_is_401(headers: Any, event: Any, code: str) -> None:
    harness = make_harness()
    answer = harness.ask("POST", "/v1/track", event, headers)
    assert (answer.status, answer.json["code"]) == (401, code)
    assert KEY not in answer.body.decode()
    assert not harness.events.lines


def test_the_key_may_be_in_the_body() -> None:
    harness = make_harness()
    assert harness.ask("POST", "/v1/track", {**EVENT, "writeKey": KEY}).status == 200
    batch = {"batch": [{"type": "page", **EVENT}], "writeKey": KEY}
    assert harness.ask("POST", "/v1/batch", batch).status == 200
    assert KEY.encode() not in b"".join(harness.events.lines)


def test_a_disabled_source_is_401() -> None:
    answer = post(make_harness(enabled=False), "/v1/track", EVENT)
    assert (answer.status, answer.json["code"]) == (401, "source_disabled")


def test_repr_does_not_show_the_key() -> None:
    assert KEY not in repr(WriteKey(KEY, make_source()))


class Incomparable(str):
    """A key that cannot be compared: the time that it takes would tell how much of it is right."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        raise AssertionError("a wrong key was compared with a right one")


def test_a_wrong_key_is_not_compared_with_the_right_one() -> None:
    keys = SourceKeys([WriteKey(KEY, make_source())])
    for end in "abcdef":
        with pytest.raises(Refusal, match="invalid_write_key"):
            keys.find(Incomparable(KEY[:-1] + end))


def test_the_key_of_a_source_that_waits_is_to_be_sent_again() -> None:
    keys = SourceKeys([WriteKey(KEY, make_source())], waiting={KEY, "waiting"})
    assert keys.find(KEY)
    with pytest.raises(Refusal, match="not_served") as refused:
        keys.find("waiting")
    assert refused.value.status == 503


def test_a_key_belongs_to_one_source() -> None:
    web, ios = make_source("web"), make_source("ios")
    with pytest.raises(InvalidSettings, match="web and ios have the same write key") as refused:
        SourceKeys([WriteKey(KEY, web), WriteKey("other", ios), WriteKey(KEY, ios)])
    assert KEY not in str(refused.value)
    keys = SourceKeys([WriteKey("1", web), WriteKey("2", ios), WriteKey("3", web)])
    assert [keys.find(key) for key in "123"] == [web, ios, web]
    assert keys.sources == [web, ios]


def test_keys_are_replaced_while_requests_are_answered() -> None:
    """A request that has been let in goes to its source, even if its key is removed meanwhile."""
    harness, new = make_harness(), make_source("ios")

    async def scenario() -> list[int]:
        harness.events.unblocked = asyncio.Event()
        first = asyncio.create_task(ask(harness.app, "POST", "/v1/t", EVENT, basic()))
        await asyncio.sleep(0.01)
        harness.app.keys = SourceKeys([WriteKey("new", new)])
        rest = [await ask(harness.app, "POST", "/v1/t", EVENT, basic(k)) for k in (KEY, "new")]
        harness.events.unblocked.set()
        return [answer.status for answer in (await first, *rest)]

    assert asyncio.run(scenario()) == [200, 401, 200]
    assert (harness.source.counts.accepted, new.counts.accepted) == (1, 1)
    assert harness.events.events[0]["projectId"] == "web-id"
    assert harness.app.metrics.rejected == {"invalid_write_key": 1}
    text = harness.ask("GET", "/metrics").body.decode()
    assert 'accepted_total{source="ios"} 1' in text
    assert 'source="web"' not in text


def test_a_password_is_ignored() -> None:
    assert parse_basic_user(b"basic " + b64encode(b"key:password")) == "key"


def test_an_invalid_event_is_200_stored_and_counted() -> None:
    harness = make_harness()
    assert post(harness, "/v1/track", {"event": "x"}).status == 200
    assert not harness.events.lines
    (record,) = harness.rejects.events
    assert (record["reason"], record["event"]) == ("no_user_anon_id", {"event": "x"})
    metrics = harness.ask("GET", "/metrics").body.decode()
    assert 'eventlake_collect_rejected_total{source="web",reason="no_user_anon_id"} 1' in metrics


def test_events_of_suppressed_users_are_counted() -> None:
    harness = make_harness(suppressed=frozenset("u"))
    assert post(harness, "/v1/track", EVENT).status == 200
    assert not harness.events.lines
    metrics = harness.ask("GET", "/metrics").body.decode()
    assert 'eventlake_collect_suppressed_total{source="web"} 1' in metrics


@pytest.mark.parametrize("origin", [{"origin": "https://shop"}, {"content-type": "text/plain"}])
def test_events_of_browsers_get_the_clients_address(origin: dict[str, str]) -> None:
    harness = make_harness()
    assert post(harness, "/v1/track", EVENT, **origin).status == 200
    assert harness.events.events[0]["context"]["ip"] == "203.0.113.7"


def test_a_gzip_body_is_decompressed() -> None:
    harness = make_harness()
    body = gzip.compress(json.dumps({**EVENT, "properties": {"a": "x" * 20_000}}).encode())
    assert post(harness, "/v1/track", body, **{"content-encoding": "gzip"}).status == 200
    assert len(harness.events.lines) == 1


@pytest.mark.parametrize(
    ("code", "body", "headers"),
    [
        ("not_gzip", b"plain", {"content-encoding": "gzip"}),
        ("not_gzip", gzip.compress(b"{}" * 99)[:-9], {"content-encoding": "gzip"}),
        ("not_gzip", gzip.compress(b"{}") * 2, {"content-encoding": "gzip"}),
        ("encoding_not_supported", b"x", {"content-encoding": "br"}),
        (
            "request_too_large",
            gzip.compress(b" " * (MAX_BODY_BYTES + 1)),
            {"content-encoding": "gzip"},
        ),
        ("request_too_large", b" " * (MAX_BODY_BYTES + 1), {}),
        ("not_json", b"{", {}),
    ],
    ids=[
        "plain text",
        "truncated gzip",
        "two gzip members",
        "unknown encoding",
        "large after gzip",
        "large",
        "not JSON",
    ],
)
def test_an_unreadable_body_is_400(code: str, body: bytes, headers: Any) -> None:
    answer = post(make_harness(), "/v1/batch", body, **headers)
    assert (answer.status, answer.json["code"]) == (400, code)


def test_a_gzip_bomb_is_refused_without_using_memory() -> None:
    bomb = gzip.compress(b" " * (100 << 20))
    assert len(bomb) < MAX_BODY_BYTES
    harness = make_harness()
    tracemalloc.start()
    try:
        answer = post(harness, "/v1/batch", bomb, **{"content-encoding": "gzip"})
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (answer.status, answer.json["code"]) == (400, "request_too_large")
    assert most < 8 * MAX_BODY_BYTES


def test_the_largest_batch_is_accepted() -> None:
    body = b'{"batch":[],"pad":"'
    body += b"x" * (MAX_BODY_BYTES - len(body) - 2) + b'"}'
    assert post(make_harness(), "/v1/batch", body).status == 200


def test_a_preflight_allows_the_requested_headers() -> None:
    answer = make_harness().ask("OPTIONS", "/v1/track")
    assert answer.status == 204
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "x-retry-count" in answer.headers["access-control-allow-headers"]
    asked = {"access-control-request-headers": "x-of-my-own"}
    answer = make_harness().ask("OPTIONS", "/v1/t", b"", asked)
    assert answer.headers["access-control-allow-headers"] == "x-of-my-own"


def test_every_reply_allows_all_origins() -> None:
    for answer in (
        post(make_harness(), "/v1/track", EVENT),
        make_harness().ask("POST", "/v1/track"),
    ):
        assert answer.headers["access-control-allow-origin"] == "*"
        assert answer.headers["access-control-expose-headers"] == "retry-after"


@pytest.mark.parametrize("encode", [b64encode, urlsafe_b64encode])
def test_the_pixel_stores_an_event(encode: Any) -> None:
    harness = make_harness()
    data = quote(encode(json.dumps({**EVENT, "writeKey": KEY, "x": "ÿ?>"}).encode()).rstrip(b"="))
    answer = harness.ask("GET", f"/v1/pixel/page?data={data}")
    assert (answer.status, answer.body) == (200, GIF)
    (event,) = harness.events.events
    assert (event["type"], event["context"]["ip"]) == ("page", "203.0.113.7")


@pytest.mark.parametrize("query", ["", "?data=", "?data=%ff", "?data=e30", "?data=!!!"])
def test_the_pixel_is_an_image_for_any_query(query: str) -> None:
    harness = make_harness()
    answer = harness.ask("GET", f"/v1/pixel/track{query}")
    assert (answer.status, answer.headers["content-type"]) == (200, "image/gif")
    assert not harness.events.lines
    assert (harness.app.metrics.rejected + harness.source.counts.rejected).total() == 1


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
def test_status_of_other_paths(method: str, path: str, status: int) -> None:
    assert make_harness().ask(method, path).status == status


def test_a_disk_error_is_503_and_nothing_is_counted() -> None:
    harness = make_harness()
    harness.events.error = unavailable()
    answer = post(harness, "/v1/track", EVENT)
    assert (answer.status, answer.headers["retry-after"]) == (503, "2")
    assert harness.source.counts.accepted == 0
    assert harness.source.counts.rejected == {"unavailable": 1}


def test_overload_is_429_before_memory_grows() -> None:
    harness = make_harness(limits=Limits(inflight_bytes=10_000))

    async def scenario() -> list[Response]:
        harness.events.unblocked = asyncio.Event()
        asked = [
            asyncio.create_task(ask(harness.app, "POST", "/v1/track", EVENT, basic()))
            for _ in "12345"
        ]
        await asyncio.sleep(0.01)
        harness.events.unblocked.set()
        answers = list(await asyncio.gather(*asked))
        return [*answers, await ask(harness.app, "POST", "/v1/track", EVENT, basic())]

    answers = asyncio.run(scenario())
    assert [answer.status for answer in answers] == [200, 200, 429, 429, 429, 200]
    assert answers[2].headers["retry-after"] == "1"


def test_requests_without_a_key_share_a_part_of_the_budget() -> None:
    harness = make_harness(limits=Limits(inflight_bytes=40_000, keyless_bytes=10_000))

    async def scenario() -> list[int]:
        harness.events.unblocked = asyncio.Event()
        keyless = [Request(method="POST", path="/v1/track") for _ in "123"]
        statuses = []
        for request in keyless:
            harness.app.check_header(request)
            try:
                harness.app.budget.reserve(request, 0)
            except Refusal as refusal:
                statuses.append(refusal.status)
        sent = [
            asyncio.create_task(ask(harness.app, "POST", "/v1/t", EVENT, basic())) for _ in "123"
        ]
        by_body = asyncio.create_task(ask(harness.app, "POST", "/v1/t", {**EVENT, "writeKey": KEY}))
        harness.app.budget.release(keyless[0])
        await asyncio.sleep(0.01)
        assert (
            harness.app.budget.keyless_bytes == keyless[1].reserved_bytes
        )  # a key in the body counts once it is read
        harness.events.unblocked.set()
        return statuses + [(await one).status for one in (*sent, by_body)]

    assert asyncio.run(scenario()) == [429, 200, 200, 200, 200]


def test_the_lines_of_a_batch_count_against_the_budget() -> None:
    harness = make_harness(limits=Limits(inflight_bytes=300_000))
    batch = {"context": {"a": "x" * 3_000}, "batch": [{"type": "page", **EVENT}] * 200}
    assert len(json.dumps(batch)) < 30_000
    answer = post(harness, "/v1/batch", batch)
    assert (answer.status, answer.json["code"]) == (429, "too_many_requests")
    assert harness.app.budget.used_bytes == 0


def test_an_internal_error_is_500_counted_and_logged(capsys: pytest.CaptureFixture[str]) -> None:
    harness = make_harness()
    harness.events.error = ValueError("a bug")  # type: ignore[assignment]
    answer = post(harness, "/v1/track", EVENT)
    assert (answer.status, answer.json["code"]) == (500, "internal_error")
    assert "a bug" in capsys.readouterr().err
    assert (harness.app.metrics.troubles, harness.app.budget.used_bytes) == (1, 0)


def test_a_decompressed_body_counts_against_the_budget() -> None:
    harness = make_harness(limits=Limits(inflight_bytes=100_000))
    body = gzip.compress(json.dumps({"batch": [], "pad": "x" * 200_000}).encode())
    answer = post(harness, "/v1/batch", body, **{"content-encoding": "gzip"})
    assert (answer.status, answer.json["code"]) == (429, "too_many_requests")
    assert post(harness, "/v1/track", EVENT).status == 200


def test_metrics_are_in_the_prometheus_format() -> None:
    harness = make_harness()
    post(harness, "/v1/track", EVENT)
    harness.source.counts.record_fsync(0.003)
    text = harness.ask("GET", "/metrics").body.decode()
    assert 'eventlake_collect_accepted_total{source="web"} 1\n' in text
    assert 'eventlake_collect_responses_total{status="200"} 1\n' in text
    assert 'eventlake_collect_fsync_seconds_bucket{source="web",le="0.005"} 1\n' in text
    assert 'eventlake_collect_fsync_seconds_count{source="web"} 1\n' in text
    assert 'eventlake_collect_archive_lag_seconds{source="web"} 1.5\n' in text
