"""One browser and one server for the tests of this folder."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from eventlake.control.roles import Role
from tests.pages.browser import NARROW, PATIENCE, Visit, running_browser, visiting
from tests.pages.denying import denying_aws
from tests.pages.site import Site, add_history, make_workspace, serving

Visitor = Callable[..., Visit]


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Stopped after this folder: Playwright's event loop runs in the thread of the tests, and
    while it does no other test of the worker can call asyncio.run.
    """
    expect.set_options(timeout=PATIENCE)
    with running_browser() as browser:
        yield browser


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Site]:
    """A server with a month of history. Tests leave it as they found it."""
    site = make_workspace(tmp_path_factory.mktemp("site"))
    add_history(site)
    with denying_aws() as environment, serving(site, env=environment) as running:
        yield running


@pytest.fixture
def visit(browser: Browser, site: Site) -> Iterator[Visitor]:
    """Opens a path as someone with a role: `visit("/", Role.VIEWER, dark=True, narrow=True)`."""
    with ExitStack() as stack:

        def open_page(
            path: str = "/",
            role: Role | None = Role.ADMIN,
            dark: bool = False,
            narrow: bool = False,
            **options: Any,
        ) -> Visit:
            if narrow:
                options["viewport"] = {"width": NARROW, "height": 844}
            session = site.sessions[role] if role else ""
            options["color_scheme"] = "dark" if dark else "light"
            entered = stack.enter_context(visiting(browser, site.url, session, **options))
            entered.open(path)
            return entered

        yield open_page
