"""The ids of users in lines, valid or not."""

import pytest

from eventlake.kernels.line_ids import list_ids, list_rejected_ids


@pytest.mark.parametrize(
    ("line", "ids"),
    [
        (b'{"userId":"u","anonymousId":"a","previousId":"p"}', ["u", "a", "p"]),
        (b'{"userId":5,"anonymousId":1e3,"previousId":-0.50}', ["5", "1000", "-0.5"]),
        (b'{"userId":true,"anonymousId":null,"previousId":["x"]}', ["true"]),
        (b'{"userId":"","properties":{"userId":"other"}}', []),
        (b'{"userId":"first","userId":"last"}', ["last"]),
        (b'{"user\\u0049d":"a\\/b"}', ["a/b"]),
        (b"\xff", []),
        (b"", []),
        (rb'{"userId":"\u00e9\ud83d\ude00"}', ["é😀"]),
        ('{"userId":"é😀"}'.encode(), ["é😀"]),
    ],
)
def test_ids_of_an_event(line: bytes, ids: list[str]) -> None:
    assert list_ids(line) == ids


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"track","userId":"ada","properties":{"n":1',  # cut
        b'{"type":"track","userId":"ada',  # cut right behind the id
        b'{"userId":"ada","properties":{"n":NaN}}',
        b'{"a":"x"y","userId":"ada"}',  # a quote too many
        b'["track","ada"]',
        b'"ada"',
        b'{"user":"ada",}',
        b'{"userId":"\\u0061da",}',
        b'\xff"ada"',
        b'{"userId":"ada"}' + b"[" * 1000,
    ],
)
def test_any_string_of_a_line_that_is_no_object_may_be_an_id(line: bytes) -> None:
    assert "ada" in list_ids(line)
    assert "adam" not in list_ids(line)


def test_numbers_of_a_line_that_is_no_object() -> None:
    assert "1000" in list_ids(b'{"userId": 1e3, "n": NaN}')


def test_an_id_is_not_that_of_which_it_is_the_start() -> None:
    assert "ada" not in list_ids(b'{"userId":"adam","n":')


def test_the_event_in_a_rejected_line() -> None:
    line = b'{"reason":"bad_type","receivedAt":"","event":%s}'
    assert list_rejected_ids(line % b'{"userId":"ada"}') == ["ada"]
    assert "ada" in list_rejected_ids(line % b'["ada"]')
    assert "ada" in list_rejected_ids(b'{"reason":"x","event":{"userId":"ada"')
