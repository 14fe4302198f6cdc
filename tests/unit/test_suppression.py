"""Suppression files, as the loader and the collector read them."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eventlake.collect.intake import parse_single, process_single
from eventlake.collect.stamp import Arrival
from eventlake.errors import InvalidSettings
from eventlake.kernels.route import ExcludedCounts, Router, Rules
from eventlake.model.naming import Call
from eventlake.suppression import read_suppressed_users


def test_a_suppression_file_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "users.txt"
    path.write_bytes(b"u1\n\xff\xfe\n")
    with pytest.raises(InvalidSettings, match=r"users\.txt is not UTF-8"):
        read_suppressed_users(path)


IDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), min_size=1).filter(
    lambda text: not text.endswith("\r") and text != "\ufeff"
)


def read_users(text: str, end: str) -> frozenset[str]:
    with TemporaryDirectory() as folder:
        path = Path(folder, "users")
        path.write_bytes(text.replace("\n", end).encode())
        return read_suppressed_users(path)


@given(st.sets(IDS), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
def test_ids_are_what_stands_between_line_ends(
    ids: set[str], end: str, ended: bool, marked: bool
) -> None:
    text = "\n".join(["", *sorted(ids), ""] if ended else ["", *sorted(ids)])
    assert read_users("\ufeff" * marked + text, end) == ids


def spell(text: str, escaped: list[bool]) -> str:
    """A JSON string with some of its characters as escapes."""
    spelled = (
        json.dumps(char)[1:-1]
        if escape
        else json.dumps(char, ensure_ascii=False)[1:-1].replace("/", "\\/")
        for char, escape in zip(text, (escaped or [False]) * len(text), strict=False)
    )
    return f'"{"".join(spelled)}"'


@given(IDS, st.lists(st.booleans()), st.sampled_from(["\n", "\r\n"]))
@example("a ", [], "\n")
@example("\u00a0a", [True], "\r\n")
@example("a\u2028b\x0bc\x85\x1e", [True], "\n")
@example("\ufeffa", [True], "\n")
@example("a\rb", [], "\n")
@example("😀", [True], "\n")
def test_whoever_a_file_names_is_suppressed_by_the_loader_and_the_collector(
    user: str, escaped: list[bool], end: str
) -> None:
    listed = read_users(f"\nsomebody\n{user}\n", end)
    assert listed == {"somebody", user}
    body = f'{{"type":"page","messageId":"m","userId":{spell(user, escaped)},'.encode()
    body += b'"receivedAt":"2026-11-01T00:00:00Z"}'
    router = Router(Rules(suppressed=listed))
    router.route_lines([body], 1, valid_utf8=True)
    assert router.excluded == {"page": ExcludedCounts(Call.PAGE, suppressed=1)}
    taken = process_single(parse_single(body), body, listed, Arrival(0, "web"))
    assert (taken.suppressed, taken.lines, taken.rejected) == (1, [], [])
