import gzip
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import pytest

from eventlake.errors import InvalidSettings
from eventlake.model.settings import validate_settings
from eventlake.sample.names import CALLS, MAX_TYPES, ranked_types
from eventlake.sample.spec import SampleSpec, SampleSummary
from eventlake.sample.write import make_sample

SPEC = SampleSpec(events=10_000, types=50, duplicates=0.04, bad=0.02)
REQUIRED = {
    "type",
    "messageId",
    "receivedAt",
    "anonymousId",
    "userId",
    "sentAt",
    "originalTimestamp",
    "timestamp",
    "context",
    "integrations",
    "channel",
    "projectId",
    "version",
}
ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")

Event = dict[str, Any]


class Name(msgspec.Struct):
    type: str
    event: str = ""


@dataclass(frozen=True)
class Line:
    file: str
    raw: bytes
    event: Any
    reason: str | None

    @property
    def table(self) -> str:
        kind = self.event["type"]
        return kind if kind in CALLS else snake(self.event["event"])

    @property
    def fields(self) -> Event:
        fields: Event = self.event.get("properties") or self.event["traits"]
        return fields


@dataclass(frozen=True)
class Sample:
    summary: SampleSummary
    good: list[Line]
    bad: list[Line]

    def copies(self) -> dict[str, list[Line]]:
        by_id = defaultdict(list)
        for line in self.good:
            by_id[line.event["messageId"]].append(line)
        return by_id


def snake(name: str) -> str:
    return "_".join(re.findall(r"[A-Z0-9]+[a-z0-9]*|[a-z0-9]+", name)).lower()


def parse(raw: bytes) -> Any:
    """The line's value, or None where the lake would call it no JSON."""
    try:
        return json.loads(raw.decode(), parse_constant=refuse, parse_float=Decimal)
    except (json.JSONDecodeError, UnicodeDecodeError, FloatingPointError):
        return None


def refuse(constant: str) -> None:
    raise FloatingPointError(constant)


def depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth, value), default=0)
    return 0


def text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def reason(raw: bytes, event: Any) -> str | None:
    """Why the lake would quarantine the line, in the order of its contract."""
    if not isinstance(event, dict):
        too_large = len(raw) > 1 << 20
        return "too_large" if too_large else "not_json" if event is None else "not_object"
    checks = {
        "too_large": len(raw) > 1 << 20,
        # Measuring every event would take longer than making it.
        "too_deep": b'{"a":{"a":' in raw and depth(event) > 100,
        "bad_type": event.get("type") not in (*CALLS, "track"),
        "no_message_id": not text(event.get("messageId")),
        "no_event_name": event.get("type") == "track" and not text(event.get("event")),
        "no_received_at": not ISO.fullmatch(str(event.get("receivedAt"))),
    }
    return next((name for name, failed in checks.items() if failed), None)


def read(out: Path) -> Iterator[Line]:
    for path in sorted(out.iterdir()):
        for raw in gzip.decompress(path.read_bytes()).splitlines():
            event = parse(raw)
            yield Line(path.name, raw, event, reason(raw, event))


def make(spec: SampleSpec, out: Path) -> Sample:
    summary, lines = make_sample(spec, out), list(read(out))
    good = [line for line in lines if line.reason is None]
    return Sample(summary, good, [line for line in lines if line.reason is not None])


def contents(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.iterdir()}


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return make(SPEC, tmp_path_factory.mktemp("raw"))


SMALL = SampleSpec(events=500, types=20, duplicates=0.1, bad=0.1)


def test_equal_specs_give_identical_files(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        make_sample(SMALL, tmp_path / folder)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_seeds_differ(tmp_path: Path) -> None:
    make_sample(SMALL, tmp_path / "one")
    make_sample(SMALL.model_copy(update={"seed": 8}), tmp_path / "two")
    one, two = contents(tmp_path / "one"), contents(tmp_path / "two")
    assert one.keys() == two.keys()
    assert all(one[name] != two[name] for name in one)


def test_the_gzip_header_holds_no_time_and_no_name(tmp_path: Path) -> None:
    make_sample(SMALL, tmp_path)
    assert all(file[3:8] == bytes(5) for file in contents(tmp_path).values())


def test_counts_are_exact(sample: Sample) -> None:
    copies = sample.copies()
    assert len(copies) == SPEC.events == sample.summary.events
    assert len(sample.good) - len(copies) == 400 == sample.summary.duplicates
    assert len(sample.bad) == 200 == sample.summary.bad


@pytest.mark.parametrize(
    ("events", "duplicates", "bad", "hours"),
    [
        (1, 0.0, 0.0, 1),
        (3, 1.0, 1.0, 24),
        (333, 0.015, 0.007, 2),
        (400, 1.5, 0.3, 5),
    ],
)
def test_fractions_are_rounded_counts(
    tmp_path: Path, events: int, duplicates: float, bad: float, hours: int
) -> None:
    spec = SampleSpec(events=events, types=10, duplicates=duplicates, bad=bad, hours=hours)
    made = make(spec, tmp_path)
    assert len(made.copies()) == events
    assert len(made.good) == events + round(events * duplicates)
    assert len(made.bad) == round(events * bad)


def test_the_summary_says_what_is_on_disk(tmp_path: Path) -> None:
    summary = make_sample(SMALL, tmp_path)
    files = contents(tmp_path).values()
    plain = sum(len(gzip.decompress(file)) for file in files)
    packed = sum(map(len, files))
    assert summary == SampleSummary(3, 500, 50, 50, bytes=packed, json_bytes=plain)


def test_every_event_has_the_fields_of_its_call(sample: Sample) -> None:
    own = {
        "track": {"event", "properties"},
        "page": {"name", "category", "properties"},
        "screen": {"name", "category", "properties"},
        "identify": {"traits"},
        "group": {"groupId", "traits"},
        "alias": {"previousId", "traits"},
    }
    for line in sample.good:
        assert line.event.keys() == REQUIRED | own[line.event["type"]]


def test_times_are_iso_with_milliseconds_and_fit_together(sample: Sample) -> None:
    for line in sample.good[:1000]:
        event = line.event
        names = ("originalTimestamp", "sentAt", "timestamp", "receivedAt")
        assert all(ISO.fullmatch(event[name]) for name in names)
        original, sent, timestamp, received = (
            datetime.fromisoformat(event[name]) for name in names
        )
        assert original <= sent
        assert timestamp <= received
    once = [lines[0].event for lines in sample.copies().values()]
    assert any(event["sentAt"][:10] != event["originalTimestamp"][:10] for event in once)


def test_message_ids_look_like_their_library(sample: Sample) -> None:
    uuid = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}"
    patterns = {"analytics.js": rf"ajs-next-\d{{13}}-{uuid}"}
    libraries: Counter[str] = Counter()
    for line in sample.good:
        library = line.event["context"]["library"]["name"]
        assert re.fullmatch(patterns.get(library, uuid), line.event["messageId"])
        libraries[library] += 1
    assert libraries.keys() == {"analytics.js", "analytics-swift", "analytics-kotlin"}


def test_context_depends_on_the_platform(sample: Sample) -> None:
    for line in sample.good:
        context = line.event["context"]
        web = context["library"]["name"] == "analytics.js"
        expected = {"page"} if web else {"app", "device", "os", "screen", "network"}
        assert expected | {"ip", "locale", "timezone", "userAgent"} <= context.keys()
        assert line.event["type"] != ("screen" if web else "page")
    assert any("campaign" in line.event["context"] for line in sample.good)


def test_people_are_anonymous_and_identified(sample: Sample) -> None:
    known = Counter(line.event["userId"] is not None for line in sample.good)
    assert min(known.values()) > len(sample.good) / 4
    person: defaultdict[str, set[str | None]] = defaultdict(set)
    for line in sample.good:
        person[line.event["anonymousId"]].add(line.event["userId"])
    assert all(len(ids - {None}) <= 1 for ids in person.values())
    named = [line for line in sample.good if line.event["type"] in ("identify", "group", "alias")]
    assert all(line.event["userId"] for line in named)


def test_all_six_calls_and_exactly_the_types_asked_for(sample: Sample) -> None:
    assert {line.event["type"] for line in sample.good} == {*CALLS, "track"}
    assert len({line.table for line in sample.good}) == SPEC.types


def test_a_thousand_types(tmp_path: Path) -> None:
    make_sample(SampleSpec(events=4_000, types=1000, duplicates=0), tmp_path)
    lines = b"".join(gzip.decompress(file) for file in contents(tmp_path).values())
    decode = msgspec.json.Decoder(Name).decode_lines
    tables = Counter(
        name.type if name.type in CALLS else snake(name.event) for name in decode(lines)
    )
    assert len(tables) == 1000
    assert tables.keys() > set(CALLS)


def test_two_thousand_names_are_distinct_tables() -> None:
    names = ranked_types(MAX_TYPES)
    assert len(names) == MAX_TYPES >= 2000
    assert len({snake(name) for name in names}) == MAX_TYPES
    assert {snake(name) for name in names} >= set(CALLS)
    assert ranked_types(6) == ("page", "Product Viewed", "screen", "identify", "group", "alias")


def test_popularity_is_skewed(sample: Sample) -> None:
    counts = Counter(line.table for line in sample.good)
    assert max(counts.values()) >= 10 * median(counts.values())


def test_lines_are_about_a_kilobyte_of_compact_json(sample: Sample) -> None:
    sizes = [len(line.raw) + 1 for line in sample.good]
    assert 1000 < sum(sizes) / len(sizes) < 1250
    for line in sample.good[:300]:
        event = json.loads(line.raw)
        assert json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode() == line.raw


def test_no_object_has_a_key_twice(sample: Sample) -> None:
    def check(pairs: list[tuple[str, Any]]) -> None:
        assert len(dict(pairs)) == len(pairs), pairs

    for line in sample.good[::5]:
        json.loads(line.raw, object_pairs_hook=check)


def test_every_reason_for_quarantine_occurs(sample: Sample) -> None:
    assert {line.reason for line in sample.bad} == {
        "too_large",
        "not_json",
        "not_object",
        "too_deep",
        "bad_type",
        "no_message_id",
        "no_event_name",
        "no_received_at",
    }


def test_a_duplicate_is_the_same_event_received_again(sample: Sample) -> None:
    resent = [lines for lines in sample.copies().values() if len(lines) > 1]
    for first, *others in resent:
        for other in others:
            assert {**other.event, "receivedAt": 0} == {**first.event, "receivedAt": 0}
            assert other.event["receivedAt"] >= first.event["receivedAt"]
    assert any(lines[0].file != lines[-1].file for lines in resent)


def test_lines_are_in_order_of_receipt_and_in_the_file_of_their_hour(sample: Sample) -> None:
    received = [line.event["receivedAt"] for line in sample.good]
    assert received == sorted(received)
    assert all(line.file.startswith(line.event["receivedAt"][:13]) for line in sample.good)


def test_arrays_of_objects_and_of_strings(sample: Sample) -> None:
    orders = [line.fields for line in sample.good if line.event.get("event") == "Order Completed"]
    assert all(isinstance(order["products"][0]["quantity"], int) for order in orders)
    tags = [tag for line in sample.good for tag in line.fields.get("tags", [])]
    assert set(map(type, tags)) == {str}


def test_an_order_adds_up_to_the_cent(sample: Sample) -> None:
    for line in sample.good:
        if line.event.get("event") == "Order Completed":
            order = line.fields
            parts = sum(item["price"] * item["quantity"] for item in order["products"])
            assert parts == order["revenue"]
            assert order["revenue"] + order["shipping"] + order["tax"] == order["total"]


def test_columns_of_mixed_types(sample: Sample) -> None:
    kinds = defaultdict(set)
    for line in sample.good:
        for key, value in line.fields.items():
            kinds[line.table, key].add(type(value))
    assert kinds["checkout_started", "value"] == {Decimal, str}
    assert kinds["order_completed", "discount"] == {Decimal, bool}
    assert kinds["order_completed", "coupon"] == {str, type(None)}


def test_timestamps_and_nested_objects_among_properties(sample: Sample) -> None:
    order = next(line for line in sample.good if line.event.get("event") == "Order Completed")
    assert ISO.fullmatch(order.fields["deliver_by"])
    assert isinstance(order.fields["payment"]["method"], str)


def test_some_columns_are_rare_and_some_begin_in_the_last_hour(sample: Sample) -> None:
    by_hour: defaultdict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for line in sample.good:
        by_hour[line.file[11:13]].update((line.table, key) for key in line.fields)
    totals = by_hour["00"] + by_hour["01"] + by_hour["02"]
    tables = Counter(line.table for line in sample.good)
    rare = [key for key, count in totals.items() if count < 3 and tables[key[0]] > 500]
    last = by_hour["02"]
    begun = [key for key, count in last.items() if count == totals[key] > 100]
    assert rare
    assert begun


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (None, ["T00-000", "T01-000", "T02-000"]),
        (5, ["T00-000", "T01-000", "T01-001", "T02-000", "T02-001"]),
        (2, ["T00-000", "T01-000"]),
        (1, ["T00-000"]),
    ],
)
def test_file_names(tmp_path: Path, files: int | None, names: list[str]) -> None:
    summary = make_sample(SMALL.model_copy(update={"files": files}), tmp_path)
    assert sorted(contents(tmp_path)) == [f"2026-11-01{name}.gz" for name in names]
    assert summary.files == len(names)


def test_large_samples_get_a_file_for_about_50_000_events() -> None:
    assert SampleSpec(events=1_000_000).file_count == 20
    assert SampleSpec(events=1000, hours=24).file_count == 24


def test_names_and_times_are_utc_whatever_the_zone_of_the_start(tmp_path: Path) -> None:
    start = datetime(2026, 3, 1, 1, tzinfo=timezone(timedelta(hours=2)))
    make_sample(SMALL.model_copy(update={"hours": 1, "start": start}), tmp_path)
    assert list(contents(tmp_path)) == ["2026-02-28T23-000.gz"]
    lines = [line for line in read(tmp_path) if line.reason is None]
    assert {line.event["receivedAt"][:13] for line in lines} == {"2026-02-28T23"}


def test_progress_adds_up(tmp_path: Path) -> None:
    seen: list[int] = []
    make_sample(SMALL, tmp_path, seen.append)
    assert sum(seen) == SMALL.events


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"events": 0}, "events is 0: it should be greater than or equal to 1"),
        ({"types": 5}, "types is 5: it should be greater than or equal to 6"),
        ({"types": MAX_TYPES + 1}, f"less than or equal to {MAX_TYPES}"),
        ({"hours": 0}, "hours is 0"),
        ({"files": 0}, "files is 0"),
        ({"duplicates": -0.1}, "duplicates is -0.1: it should be greater than or equal to 0"),
        ({"bad": float("nan")}, "bad is nan"),
        ({"seed": -1}, "seed is -1"),
        ({"start": datetime(2026, 11, 1)}, "it should be a time with its zone"),
    ],
)
def test_a_spec_that_makes_no_sense_is_refused(change: Event, message: str) -> None:
    with pytest.raises(InvalidSettings, match=re.escape(message)):
        validate_settings(SampleSpec, change)


def test_defaults_are_those_of_the_command() -> None:
    spec = SampleSpec()
    assert (spec.events, spec.types, spec.hours, spec.seed) == (100_000, 50, 3, 7)
    assert (spec.duplicates, spec.bad, spec.files) == (0.01, 0.0, None)
    assert spec.start == datetime(2026, 11, 1, tzinfo=UTC)


def test_messy_events_have_mixed_types_arrays_and_long_numbers(tmp_path: Path) -> None:
    make_sample(SampleSpec(events=2_000, types=20, messy=True), tmp_path)
    texts = [gzip.decompress(path.read_bytes()).decode() for path in tmp_path.glob("*.gz")]
    lines = "".join(texts).splitlines()
    events = [json.loads(line, parse_float=str) for line in lines]
    kinds: defaultdict[str, set[type]] = defaultdict(set)
    long_numbers = 0
    for event in events:
        for key, value in event.get("properties", {}).items():
            kinds[key].add(type(value))
            if isinstance(value, dict) and "ratio" in value:
                long_numbers += len(value["ratio"]) >= 16
    assert any({str, int} <= found for found in kinds.values())
    assert any(list in found for found in kinds.values())
    assert long_numbers > 100
