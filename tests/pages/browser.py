"""Debian's Chromium, driven by Playwright."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
WIDE, NARROW = 1400, 390
ZONE = "Europe/Berlin"
PATIENCE = 120_000
"""Milliseconds to wait for something that comes."""
COOKIE = "eventlake"
_axe = Axe()


def find_chromium() -> str:
    """The path of Chromium; without it, tests are skipped on a user's machine and fail in CI."""
    path = shutil.which("chromium")
    if path is None:
        reason = "the pages are not tested: install Chromium, as by `apt-get install chromium`"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return path


@contextmanager
def running_browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Visit:
    """A page of a person, with what went wrong on it."""

    page: Page
    url: str
    problems: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)
    """Parts of messages that are no problem in this test."""

    def open(self, path: str) -> Page:
        self.page.goto(self.url + path)
        return self.page

    def check(self) -> None:
        """Nothing was asked of another server, no script failed, and CSP refused nothing."""
        foreign = [one for one in self.requests if not one.startswith((self.url, "data:"))]
        assert not foreign
        wrong = [one for one in self.problems if not any(part in one for part in self.expected)]
        assert not wrong, wrong


def find_violations(page: Page, *rules: str) -> list[str]:
    """What axe finds: the rule and the elements. By default it applies all rules."""
    results = _axe.run(page, options={"runOnly": list(rules)}) if rules else _axe.run(page)
    found: Any = results.response["violations"]
    return [f"{one['id']}: {node['html'][:160]}" for one in found for node in one["nodes"]]


@contextmanager
def visiting(browser: Browser, url: str, session: str = "", **options: Any) -> Iterator[Visit]:
    """A page in a context of its own; at the end, `Visit.check`."""
    chosen = {"viewport": {"width": WIDE, "height": 900}, "timezone_id": ZONE, **options}
    context: BrowserContext = browser.new_context(**chosen)
    context.set_default_timeout(PATIENCE)
    if session:
        context.add_cookies([{"name": COOKIE, "value": session, "url": url}])
    visit = Visit(context.new_page(), url)
    visit.page.on("request", lambda one: visit.requests.append(one.url))
    visit.page.on(
        "console",
        lambda one: visit.problems.append(one.text) if one.type in ("error", "warning") else None,
    )
    visit.page.on("pageerror", lambda one: visit.problems.append(str(one)))
    try:
        yield visit
        visit.check()
    finally:
        context.close()
