"""The documentation of this version, so that it can be read without a connection."""

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

import eventlake
from eventlake.errors import NotFound
from eventlake.server.pages.base import OpenPage

router = APIRouter()
FOLDER = Path(eventlake.__file__).parent / "docs"
_NAME = re.compile(r"[a-z0-9-]+\.md")
_IMAGE = re.compile(r"[a-z0-9-]+\.png")


@router.get("/docs")
@router.get("/docs/")
def show_first_document(_: OpenPage) -> RedirectResponse:
    """The page with which the documentation of the server begins."""
    return RedirectResponse("/docs/up.md", 303)


@router.get("/docs/{name}")
def show_document(page: OpenPage, name: str) -> HTMLResponse:
    """A page of the documentation."""
    if not _NAME.fullmatch(name) or not (FOLDER / name).is_file():
        raise NotFound(f"document is {name!r}: there is no such page")
    title, body = _render(name)
    return page.render("document.html", title=title, body=body, name=name)


@router.get("/docs/images/{name}")
def show_image(_: OpenPage, name: str) -> Response:
    """An image of the documentation."""
    path = FOLDER / "images" / name
    if not _IMAGE.fullmatch(name) or not path.is_file():
        raise NotFound(f"image is {name!r}: there is no such image")
    return Response(path.read_bytes(), media_type="image/png")


@cache
def _render(name: str) -> tuple[str, Markup]:
    """The title and the HTML of a page; HTML in the page itself is escaped."""
    text = (FOLDER / name).read_text("utf-8")
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(text)
    title = "Documentation"
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            words = tokens[at + 1].content
            token.attrSet("id", _anchor(words))
            if token.tag == "h1":
                title = words.replace("`", "")
        elif token.type in ("fence", "code_block"):
            token.attrSet("tabindex", "0")
        elif "style" in token.attrs:  # the alignment of a cell, which the policy would refuse
            del token.attrs["style"]
            token.attrSet("class", "n")
        if token.children and not (FOLDER / "images").is_dir():
            token.children = [one for one in token.children if one.type != "image"]
        token.children = _drop_links_elsewhere(token.children) if token.children else None
    shown = [token for token in tokens if not _is_title(tokens, token)]
    return title, Markup(parser.renderer.render(shown, parser.options, {}))  # noqa: S704 - escaped


def _drop_links_elsewhere(tokens: Sequence[Token]) -> list[Token]:
    """Inline tokens without links to files of the repository, which the server does not have."""
    kept, is_dropped = [], False
    for one in tokens:
        if one.type == "link_open":
            place = str(one.attrGet("href")).partition("#")[0]
            is_dropped = "/" in place and "://" not in place
        if not (is_dropped and one.type in ("link_open", "link_close")):
            kept.append(one)
    return kept


def _is_title(tokens: Sequence[object], token: object) -> bool:
    """The first heading, which the page has as its own."""
    return any(token is one for one in tokens[:3]) and getattr(tokens[0], "tag", "") == "h1"


def _anchor(words: str) -> str:
    """The id of a heading, as links on the other pages have it."""
    return re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
