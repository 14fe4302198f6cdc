"""docs/api.md is what the code says, and has every operation."""

from pathlib import Path

from eventlake.server.reference import build_page

PAGE = Path(__file__).parents[2] / "docs/api.md"


def test_the_page_is_current() -> None:
    """When this fails: `make docs`."""
    assert PAGE.read_text() == build_page()
