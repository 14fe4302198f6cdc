"""From an empty folder to a table, with Spark; and hostile events, looked at on every page."""

import json
import re
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.pages.browser import Visit, find_violations, visiting
from tests.pages.site import running_server

MARKER = "hostile"
PAYLOADS = (
    "<script>window.hostile=1</script>",
    "<img src=x onerror=window.hostile=1>",
    '"><svg onload=window.hostile=1>',
    "'-window.hostile=1-'",
    "javascript:window.hostile=1",
    "</textarea><script>window.hostile=1</script>",
    "</title><script>window.hostile=1</script>",
    "{{constructor.constructor('window.hostile=1')()}}",
    "${window.hostile=1}",
    "<a href='javascript:window.hostile=1'>x</a>",
    "<style>@import 'http://127.0.0.1:9/x'</style>",
    "<!--<img src=x onerror=window.hostile=1>-->",
    "\u202e<details open ontoggle=window.hostile=1>",
    "<iframe srcdoc='<script>parent.hostile=1</script>'>",
    "<base href='http://127.0.0.1:9/'>",
    "<meta http-equiv=refresh content='0;url=http://127.0.0.1:9/'>",
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[str]:
    """A server in an empty folder, where everybody on this machine is admin."""
    with running_server(tmp_path_factory.mktemp("first")) as url:
        yield url


@pytest.fixture
def visit(browser: Browser, url: str) -> Iterator[Visit]:
    with visiting(browser, url) as visit:
        yield visit


def send(url: str, key: str, **event: object) -> int:
    return httpx.post(f"{url}/v1/track", json=event, auth=(key, ""), timeout=30).status_code


def find_key(url: str) -> str:
    key: str = httpx.get(f"{url}/api/v1/sources/web").json()["write_keys"][0]
    return key


def test_three_steps_lead_to_a_table(visit: Visit, url: str) -> None:
    page = visit.open("/")
    expect(page.get_by_text("Three steps to your first table")).to_be_visible()
    assert not find_violations(page)
    page.get_by_role("button", name="Add the source").click()
    curl = page.locator("#curl")
    expect(curl).to_contain_text('-d \'{"userId":"u1"')
    steps = page.locator(".steps > li")
    expect(steps.nth(1)).not_to_have_class("done")
    key = find_key(url)
    _wait_for_key(page, url, key)
    for number, payload in enumerate(PAYLOADS):  # for the tests below
        properties = {payload: payload, "plain": payload}
        assert (
            send(url, key, userId=payload, event=f"Hostile {payload}", properties=properties) == 200
        )
        assert send(url, key, userId=f"u{number}", event="Hello", properties=properties) == 200
    expect(steps.nth(1)).to_have_class("done")  # without a reload
    page.get_by_role("button", name="Sync now").first.click()
    expect(page.get_by_role("heading", name="Run 1")).to_be_visible()
    expect(page.locator("#live .state").first).to_contain_text("Success")  # it follows the run
    expect(page.get_by_text("balanced").first).to_be_visible()
    page = visit.open("/")
    expect(page.get_by_text("Three steps")).to_have_count(0)
    page = visit.open("/sources/web/schema")
    expect(page.get_by_role("link", name="hello", exact=True)).to_be_visible()


def _wait_for_key(page: Page, url: str, key: str) -> None:
    """The collector notices a new key within about a second."""
    for _ in range(100):
        if send(url, key, userId="u", event="Hello") == 200:
            return
        page.wait_for_timeout(100)
    raise AssertionError("the key is not accepted")


def list_tables(url: str) -> list[str]:
    found = httpx.get(f"{url}/api/v1/sources/web/schema?limit=500").json()
    return [one["table"] for one in found["items"]]


def test_nothing_hostile_is_executed_on_any_page(visit: Visit, url: str) -> None:
    tables = list_tables(url)
    assert len(tables) > 10
    paths = ["/", "/runs", "/runs/1", "/sources/web", "/sources/web/history", "/sources/web/schema"]
    paths += [f"/sources/web/schema?table={table}" for table in tables]
    paths += ["/sources/web/quarantine", "/sources/web/replay", "/query", "/privacy", "/admin/code"]
    paths += ["/admin/audit", "/admin/notices"]
    shown = ""
    for path in paths:
        page = visit.open(path)
        shown += page.content()
        assert page.evaluate(f"window.{MARKER}") is None, path
        assert page.url == url + path  # nothing has led elsewhere
    assert "&lt;script&gt;window.hostile=1" in shown  # it was there, as text


def test_nothing_hostile_is_executed_in_the_result_of_a_query(visit: Visit) -> None:
    page = visit.open("/query")
    page.get_by_label("SQL (DuckDB)").fill("select plain, * from web.hello")
    page.get_by_label("Chart").select_option("bar")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("group", name="Result", exact=True)).to_contain_text("<script>")
    assert page.evaluate(f"window.{MARKER}") is None


@pytest.mark.parametrize("payload", PAYLOADS[:4])
def test_nothing_hostile_is_executed_from_forms_and_addresses(visit: Visit, payload: str) -> None:
    visit.expected.append("Failed to load resource")
    quoted = httpx.QueryParams({"search": payload, "of": payload, "sql": payload, "next": payload})
    for path in ("/sources/web/schema", "/admin/audit", "/query", "/login", "/sources/web/history"):
        page = visit.open(f"{path}?{quoted}")
        assert page.evaluate(f"window.{MARKER}") is None, path
    page = visit.open("/query")
    page.get_by_label("SQL (DuckDB)").fill(payload)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("alert")).to_be_visible()
    assert page.evaluate(f"window.{MARKER}") is None
    page.get_by_text("Save this query").click()
    page.get_by_label("Name").fill(payload)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("link", name=payload, exact=True)).to_be_visible()
    assert page.evaluate(f"window.{MARKER}") is None


def test_the_policy_allows_no_inline_script(url: str) -> None:
    policy = httpx.get(url).headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy


def test_forms_of_other_sites_are_refused(visit: Visit, url: str) -> None:
    visit.expected.append("Failed to load resource")
    reply = httpx.post(
        f"{url}/sources/web/disable",
        headers={"origin": "http://evil.example", "sec-fetch-site": "cross-site"},
    )
    assert reply.status_code == 403
    other = httpx.post(f"{url}/sources/web/disable", headers={"host": "evil.example"})
    assert other.status_code == 421


def test_a_plan_of_a_replay_is_made_and_started(visit: Visit) -> None:
    page = visit.open("/sources/web/replay")
    page.get_by_label("All events instead of a time").check()
    page.get_by_role("button", name="Make the plan").click()
    expect(page.get_by_role("region", name="Plan", exact=True)).to_contain_text("files")
    assert not find_violations(page)
    page.get_by_role("button", name="Start the replay").click()
    expect(page.locator("#live .state").first).to_contain_text("Success")
    expect(page.get_by_text("1 of 1 chunk done")).to_be_visible()


def test_a_type_is_pinned_without_a_rewrite(visit: Visit) -> None:
    page = visit.open("/sources/web/schema?table=hello")
    page.get_by_label("Column", exact=True).select_option("plain")
    page.get_by_label("Type", exact=True).select_option("string")
    page.get_by_role("button", name="Make the plan").click()
    expect(page.get_by_role("region", name="Plan", exact=True)).to_be_visible()
    page.get_by_role("button", name="Do it").click()
    expect(page.locator("#live .state").first).to_contain_text("Success")
    page = visit.open("/sources/web/schema?table=hello")
    columns = page.get_by_role("group", name="Columns")
    expect(columns.get_by_role("row", name=re.compile("^plain string pinned "))).to_be_visible()


def test_a_type_is_pinned_after_its_plan_was_looked_at(visit: Visit) -> None:
    page = visit.open("/sources/web/schema?table=hello")
    page.get_by_label("Column", exact=True).select_option("plain")
    page.get_by_label("Type", exact=True).select_option("bigint")
    page.get_by_label("Rewrite all rows, too").check()
    page.get_by_role("button", name="Make the plan").click()
    expect(page.get_by_role("region", name="Plan", exact=True)).to_be_visible()
    assert page.evaluate(f"window.{MARKER}") is None
    assert not find_violations(page)
    page.get_by_role("button", name="Do it").click()
    expect(page.locator("#live .state").first).to_contain_text("Success")
    page = visit.open("/sources/web/schema?table=hello")
    columns = page.get_by_role("group", name="Columns")
    rewritten = re.compile(r"^plain bigint pinned 100 % \d+ ")  # no text is a number: all rescued
    expect(columns.get_by_role("row", name=rewritten)).to_be_visible()


def test_forgetting_a_user_gives_a_receipt(visit: Visit) -> None:
    page = visit.open("/privacy")
    page.locator("#forget-users").fill("u3")
    page.get_by_role("button", name="Look for their events").click()
    expect(page.locator("#live .state").first).to_contain_text("Planned")
    page = visit.open("/privacy")
    page.locator("#forget-users").fill("u3")
    page.get_by_label("Type “forget” to confirm").fill("forget")
    page.get_by_role("button", name="Forget", exact=True).click()
    link = page.get_by_role("link", name="Download the receipt")
    expect(link).to_be_visible()
    assert not find_violations(page)
    with page.expect_download() as download:
        link.click()
    receipts = json.loads(download.value.path().read_text())
    assert receipts["receipts"]
