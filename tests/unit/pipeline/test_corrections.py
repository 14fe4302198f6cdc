"""Corrections of quarantined lines."""

import json
from typing import Any

import pytest

from eventlake.errors import InvalidSettings
from eventlake.pipeline.corrections import (
    NoCorrection,
    QuarantinedLine,
    parse_corrected_lines,
    parse_fields,
)

RUN = "1793534400000000000"


def row(raw: bytes, reason: str = "no_received_at", line: int = 1) -> QuarantinedLine:
    return QuarantinedLine(reason, "", raw, "a.gz", line, RUN)


# Fields


@pytest.mark.parametrize(
    ("words", "raw", "corrected"),
    [
        (["a=1"], b'{ "b" : 1.10, "a":2, "a": 3}', b'{"b":1.10,"a":1}'),
        (["a=1.10"], b"{}", b'{"a":1.10}'),
        (["a=x y"], b"{}", b'{"a":"x y"}'),
        (["a="], b"{}", b'{"a":""}'),
        (["a=2026-11-01T00:00:00Z"], b"{}", b'{"a":"2026-11-01T00:00:00Z"}'),
        (['a="1"'], b"{}", b'{"a":"1"}'),
        (["a=NaN"], b"{}", b'{"a":"NaN"}'),
        (["a= [1,\n2] "], b"{}", b'{"a":[1, 2]}'),
        (["a=null", "b==x"], b"{}", b'{"a":null,"b":"=x"}'),
        (["a.b.c=true"], b'{"a":{"x":1e400}}', b'{"a":{"x":1e400,"b":{"c":true}}}'),
        (["a.b=1", "a.c=2"], b"{}", b'{"a":{"b":1,"c":2}}'),
        (["a.b=1"], b'{"a":null}', b'{"a":{"b":1}}'),
        (["a=1"], '{"é":"\\u00e9 é"}'.encode(), '{"é":"\\u00e9 é","a":1}'.encode()),
    ],
)
def test_fields_are_set_and_others_stay(words: list[str], raw: bytes, corrected: bytes) -> None:
    assert parse_fields(words).correct(row(raw)) == corrected


@pytest.mark.parametrize(
    ("reason", "raw"),
    [
        ("not_json", b"{"),
        ("not_object", b"[]"),
        ("damaged_file", b""),
        ("too_large", b"{}"),
        ("too_deep", b"{}"),
        ("no_received_at", b'{"a":5}'),
    ],
)
def test_lines_whose_field_cannot_be_set(reason: str, raw: bytes) -> None:
    assert parse_fields(["a.b=1"]).correct(row(raw, reason)) is None


def test_a_field_that_was_set_before_changes_nothing() -> None:
    assert parse_fields(["a=1"]).correct(row(b'{"a":1}')) is None


@pytest.mark.parametrize("word", ["a", "", "=1", "a..b=1", ".a=1", "a.=1"])
def test_no_field_and_value(word: str) -> None:
    with pytest.raises(InvalidSettings, match="write field=value"):
        parse_fields([word])


def test_without_a_correction_only_valid_lines_are_redriven() -> None:
    valid = b'{"type":"page","messageId":"a","receivedAt":"2026-11-01T00:00:00Z"}'
    assert NoCorrection().correct(row(valid)) == valid
    assert NoCorrection().correct(row(b"{}")) is None


# Corrected lines


def corrected(raw: str, line: int = 1, **fields: Any) -> dict[str, Any]:
    return {"run_id": RUN, "file": "a.gz", "line": line, "raw": raw, "reason": "x", **fields}


def test_an_array_and_lines_are_the_same() -> None:
    rows = [corrected("{}"), corrected("x", 2)]
    lines = "\n".join(map(json.dumps, rows)).encode()
    array = parse_corrected_lines(json.dumps(rows, indent=1).encode(), "x")
    assert array == parse_corrected_lines(lines, "x")
    assert array.correct(row(b"{", line=1)) == b"{}"
    assert array.correct(row(b"{", line=3)) is None


def test_lines_that_are_not_changed_stay() -> None:
    lines = parse_corrected_lines(json.dumps([corrected("\\xff é")]).encode(), "x")
    assert lines.correct(row("\\xff é".encode().replace(b"\\xff", b"\xff"))) is None
    lines.check_found("x")


def test_the_damage_of_a_file_is_no_line() -> None:
    lines = parse_corrected_lines(json.dumps([corrected("{}")]).encode(), "x")
    assert lines.correct(row(b"", "damaged_file")) is None


@pytest.mark.parametrize("raw", ["", " ", "{}\n{}"])
def test_a_corrected_line_is_one_line(raw: str) -> None:
    lines = parse_corrected_lines(json.dumps([corrected(raw)]).encode(), "x")
    with pytest.raises(InvalidSettings, match=r"line 1 of a\.gz.*one line that is not blank"):
        lines.correct(row(b"{"))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "fixed has no lines"),
        (b"{", "fixed: .*eventlake quarantine --json"),
        (b"[1]", "fixed: .*with run_id, file, line and the corrected raw"),
        (json.dumps({"file": "a", "line": 1, "raw": ""}).encode(), "fixed: .*run_id"),
        (b'{"raw": "\xff"}', "fixed: "),
        (json.dumps([corrected("a"), corrected("b")]).encode(), "line 1 of a.gz.*twice"),
    ],
)
def test_files_of_another_form(data: bytes, message: str) -> None:
    with pytest.raises(InvalidSettings, match=message):
        parse_corrected_lines(data, "fixed")


def test_lines_that_are_not_in_the_quarantine() -> None:
    lines = parse_corrected_lines(json.dumps([corrected("{}"), corrected("x", 2)]).encode(), "x")
    lines.correct(row(b"{"))
    with pytest.raises(InvalidSettings, match=rf"x: 1 lines .*: line 2 of a\.gz, run {RUN}; "):
        lines.check_found("x")
