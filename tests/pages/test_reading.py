"""Every page in both themes and widths, for each role: what it shows, and that nobody is left out.

Nothing here changes the workspace.
"""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urljoin
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import expect

from eventlake.control.roles import Role
from eventlake.lakes.kinds import KINDS
from tests.pages.all_pages import PAGES
from tests.pages.browser import NARROW, find_violations
from tests.pages.conftest import Visitor

DOCS = Path(__file__).parents[2] / "docs"
REFUSED = "Failed to load resource"
"""What the browser's console says about a page with an error status."""


def path_of(name: str) -> str:
    yesterday = f"{datetime.now(UTC) - timedelta(days=1):%Y-%m-%d}"
    return PAGES[name].replace("{yesterday}", yesterday)


def test_axe_finds_nothing_on_any_page_in_both_themes(visit: Visitor) -> None:
    opened = visit("/")
    opened.expected.append(REFUSED)
    found = {}
    for name in PAGES:
        page = opened.open(path_of(name))
        violations = find_violations(page)
        page.emulate_media(color_scheme="dark")  # which changes nothing but colours
        violations += find_violations(page, "color-contrast", "link-in-text-block")
        page.emulate_media(color_scheme="light")
        if violations:
            found[name] = violations
    assert not found


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_axe_finds_nothing_on_pages_of_others(visit: Visitor, role: Role) -> None:
    opened = visit("/", role)
    opened.expected.append(REFUSED)
    names = ("home", "run-finished", "source", "table", "quarantine", "query", "privacy", "people")
    found = {name: find_violations(opened.open(path_of(name))) for name in names}
    assert not {name: one for name, one in found.items() if one}


def test_no_page_is_wider_than_a_telephone(visit: Visitor) -> None:
    opened = visit("/", narrow=True)
    opened.expected.append(REFUSED)
    wide = {}
    for name in PAGES:
        page = opened.open(path_of(name))
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > NARROW:
            wide[name] = width
    assert not wide


def test_the_first_load_is_small_and_quick(visit: Visitor) -> None:
    opened = visit("/login", None)  # the server has compiled the template
    sizes: list[int] = []
    opened.page.on("response", lambda one: sizes.append(len(one.body())))
    opened.requests.clear()
    page = opened.open("/")
    page.wait_for_load_state("load")
    assert len(opened.requests) <= 6
    assert sum(sizes) <= 100_000
    times = []
    for _ in range(5):
        page.reload(wait_until="load")
        times.append(
            page.evaluate("performance.timing.loadEventEnd - performance.timing.fetchStart")
        )
    assert min(times) <= 300, times


def test_static_files_are_kept_for_ever(visit: Visitor) -> None:
    page = visit("/").page
    page.goto(page.url)
    kept = page.evaluate(
        "performance.getEntriesByType('resource').filter(r => r.transferSize === 0).length"
    )
    assert kept >= 2


def test_home_has_a_line_for_each_source(visit: Visitor) -> None:
    page = visit("/").page
    rows = page.get_by_role("group", name="Sources").get_by_role("row")
    expect(rows).to_have_count(4)
    expect(rows.filter(has_text="ios")).to_contain_text("Failing")
    expect(rows.filter(has_text="tv")).to_contain_text("Not connected")
    expect(rows.filter(has_text="web").get_by_role("img")).to_have_attribute(
        "aria-label", re.compile("web: Success, Success in the last 24 hours")
    )


def test_home_has_open_incidents_with_their_cause(visit: Visitor) -> None:
    page = visit("/").page
    table = page.get_by_role("group", name="Open incidents")
    expect(table).to_contain_text("AWS denied s3:PutObject")
    table.get_by_role("link", name="Run 6").click()
    expect(page.get_by_role("heading", name="Run 6")).to_be_visible()


def test_times_are_in_the_readers_zone_with_utc_beside(visit: Visitor) -> None:
    for _ in range(2):  # by the script at first, then by the server
        page = visit("/runs/1").page
        moment = page.locator("time").first
        utc = datetime.fromisoformat(moment.get_attribute("datetime") or "")
        local = utc.astimezone(ZoneInfo("Europe/Berlin"))
        expect(moment).to_have_text(re.compile(f"{local:%d %b %H:%M:%S}\\s+{utc:%H:%M} UTC"))
        expect(page.get_by_text("times in Europe/Berlin")).to_be_visible()
        page.reload()
        expect(moment).to_have_text(re.compile(f"{local:%d %b %H:%M:%S}\\s+{utc:%H:%M} UTC"))


def test_reading_works_without_a_script(visit: Visitor) -> None:
    opened = visit("/", java_script_enabled=False)
    expect(opened.page.get_by_role("group", name="Sources")).to_contain_text("web")
    page = opened.open("/runs/1")
    expect(page.get_by_text("balanced").first).to_be_visible()
    expect(page.locator("time").first).to_contain_text("UTC")
    page = opened.open("/sources/web/schema?table=order_completed")
    expect(page.get_by_role("group", name="Columns")).to_contain_text("currency")


def test_the_theme_follows_the_system_and_the_switch(visit: Visitor) -> None:
    page = visit("/", dark=True).page
    background = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(background) == "rgb(18, 22, 26)"
    page.get_by_role("button", name="Switch between light and dark").click()
    assert page.evaluate(background) == "rgb(247, 248, 249)"
    page.reload()
    assert page.evaluate(background) == "rgb(247, 248, 249)"


def test_the_theme_can_be_switched_without_a_script(visit: Visitor) -> None:
    page = visit("/runs", java_script_enabled=False).page
    page.get_by_role("button", name="Switch between light and dark").click()
    assert page.url.endswith("/runs") or page.url.endswith("/")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_the_source_shows_thirty_days_and_one_of_them(visit: Visitor) -> None:
    page = visit("/sources/web").page
    chart = page.get_by_role("group", name="Rows landed a day", exact=True)
    expect(chart.get_by_role("link")).to_have_count(30)
    chart.get_by_role("link").nth(28).click()
    day = page.get_by_role("group", name="Tables of the day")
    expect(day).to_contain_text("order_completed")
    expect(day).to_contain_text("%")


def test_the_chart_has_a_table_as_its_text(visit: Visitor) -> None:
    page = visit("/sources/web").page
    page.get_by_text("As a table").click()
    expect(page.get_by_role("group", name="Rows a day").get_by_role("row")).to_have_count(31)


def test_the_lag_from_the_collector_to_the_table_is_shown(visit: Visitor) -> None:
    page = visit("/sources/web").page
    panel = page.get_by_role("region", name="From the collector to the table")
    expect(panel).to_contain_text("Collector → archive")
    expect(panel).to_contain_text("Newest row")


def test_filters_of_the_history_are_in_the_address(visit: Visitor) -> None:
    page = visit("/sources/ios/history").page
    expect(page.get_by_role("group", name="Runs").get_by_role("row")).to_have_count(5)
    page.get_by_label("Status").select_option("finished")
    page.get_by_role("button", name="Filter").click()
    assert "state=finished" in page.url
    expect(page.get_by_text("No run matches the filter.")).to_be_visible()


def test_the_history_has_changes_of_the_schema(visit: Visitor) -> None:
    page = visit("/sources/web/history").page
    changes = page.get_by_role("group", name="Changes")
    expect(changes).to_contain_text("new tables cart_opened, order_completed")
    expect(changes).to_contain_text("new column order_completed.gift boolean")


def test_a_run_shows_balanced_books(visit: Visitor) -> None:
    page = visit("/runs/1").page
    expect(page.get_by_text("received 123 = landed 120")).to_be_visible()
    tables = page.get_by_role("group", name="Tables of the run")
    expect(tables.get_by_role("row").filter(has_text="cart_opened")).to_contain_text("✓")
    expect(tables).to_contain_text("new table")


def test_a_failed_run_says_what_to_do_and_proves_it(visit: Visitor) -> None:
    page = visit("/runs/3").page
    expect(page.get_by_text("A permission is missing")).to_be_visible()
    expect(page.get_by_text("What to do:")).to_be_visible()
    page.get_by_role("link", name="Run the checks of main").click()
    expect(page.get_by_role("heading", name="Live check")).to_be_visible()


def test_the_schema_lists_tables_with_sizes(visit: Visitor) -> None:
    page = visit("/sources/web/schema").page
    expect(page.get_by_role("heading", name="3 tables")).to_be_visible()
    row = page.get_by_role("row").filter(has_text="order_completed").first
    expect(row).to_contain_text("49")
    page.get_by_label("Part of the name").fill("cart")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("heading", name="1 table")).to_be_visible()


def test_a_table_shows_its_columns_and_shares(visit: Visitor) -> None:
    page = visit("/sources/web/schema?table=order_completed").page
    columns = page.get_by_role("group", name="Columns")
    row = columns.get_by_role("row").filter(has_text="gift")
    expect(row).to_contain_text("boolean")
    expect(row).to_contain_text("81.6 %")
    total = columns.get_by_role("row", name=re.compile(r"^total decimal\(38,6\) 18.4 % 9 "))
    expect(total).to_be_visible()  # nine values were rescued
    expect(columns.get_by_role("row").filter(has_text="currency")).to_contain_text("EUR")
    for engine in ("Athena", "Spark", "DuckDB"):
        expect(page.get_by_role("heading", name=engine)).to_be_visible()


def test_a_viewer_sees_no_values_of_events(visit: Visitor) -> None:
    opened = visit("/sources/web/schema?table=order_completed", Role.VIEWER)
    expect(opened.page.get_by_text("Sample values need the role operator")).to_be_visible()
    opened.expected.append(REFUSED)
    for name in PAGES:
        text = opened.page.request.get(opened.url + path_of(name)).text()
        assert not [value for value in ("SPRING", "A-17", "not json") if value in text], name


def test_statements_are_copied(visit: Visitor) -> None:
    opened = visit("/sources/web/schema?table=order_completed")
    opened.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    opened.page.get_by_role("button", name="Copy").last.click()
    expect(opened.page.get_by_role("button", name="Copied")).to_be_visible()
    copied = opened.page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("SELECT * FROM read_parquet(")


def test_the_quarantine_has_reasons_and_lines_with_the_fault_marked(visit: Visitor) -> None:
    page = visit("/sources/web/quarantine").page
    expect(page.get_by_role("heading", name="3 lines by reason and day")).to_be_visible()
    page.get_by_role("group", name="Quarantined lines").get_by_role("link").first.click()
    expect(page.locator("mark")).to_be_visible()


def test_the_quarantine_of_a_viewer_has_counts_only(visit: Visitor) -> None:
    page = visit("/sources/web/quarantine", Role.VIEWER).page
    expect(page.get_by_role("heading", name="3 lines by reason and day")).to_be_visible()
    expect(page.get_by_text("Looking at lines of events needs the role operator.")).to_be_visible()


def test_a_viewer_cannot_query(visit: Visitor) -> None:
    page = visit("/query", Role.VIEWER).page
    expect(page.get_by_text("Looking at events with SQL needs the role operator.")).to_be_visible()
    expect(page.get_by_role("textbox")).to_have_count(0)


@pytest.mark.parametrize("path", ["/admin", "/admin/tokens", "/admin/audit", "/privacy"])
def test_an_operator_is_told_what_needs_an_admin(visit: Visitor, path: str) -> None:
    page = visit(path, Role.OPERATOR).page
    expect(page.get_by_text("needs the role admin")).to_be_visible()


def test_a_viewer_has_no_buttons_that_change_something(visit: Visitor) -> None:
    opened = visit("/sources/web", Role.VIEWER)
    for path in ("/sources/web", "/runs/3", "/sources/web/keys", "/sources/web/settings", "/lakes"):
        page = opened.open(path)
        expect(
            page.get_by_role("button", name=re.compile("Sync|Turn|Save|Add|Retry"))
        ).to_have_count(0)


def test_the_server_that_leads_is_shown(visit: Visitor) -> None:
    page = visit("/admin/server", Role.VIEWER).page
    row = page.get_by_role("group", name="Servers").get_by_role("row").nth(1)
    expect(row).to_contain_text("Alive")
    expect(row).to_contain_text("monitor, scheduler")
    expect(row).to_contain_text("api, collector, worker")


def test_an_unknown_page_is_a_page(visit: Visitor) -> None:
    opened = visit("/login")
    opened.expected.append(REFUSED)
    page = opened.open("/nowhere")
    expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()


def test_every_page_links_to_its_documentation(visit: Visitor) -> None:
    opened = visit("/")
    expect(opened.page.get_by_role("link", name="Docs", exact=True)).to_be_visible()

    def read(path: str) -> str:
        return opened.page.request.get(opened.url + path).text()

    targets = set()
    for name in PAGES:
        [target] = re.findall(r'<a[^>]* href="([^"]+)"[^>]*>Docs</a>', read(path_of(name)))
        targets.add(target.partition("#")[::2])
    assert len(targets) > 5
    for path, anchor in sorted(targets):
        text = read(path)
        assert "<h1" in text, path
        assert not anchor or f'id="{anchor}"' in text, (path, anchor)


def test_links_and_images_of_the_documentation_lead_somewhere(visit: Visitor) -> None:
    opened = visit("/docs/tutorial.md")
    request = opened.page.request
    assert opened.page.locator("img").count() >= 5
    names = [*DOCS.glob("*.md")]
    assert len(names) > 10
    missing, known = [], dict[str, int]()
    for name in (one.name for one in names):
        text = request.get(f"{opened.url}/docs/{name}").text()
        for target in re.findall(r'(?:href|src)="([^":]+)"', text):
            address = urljoin(f"/docs/{name}", target.partition("#")[0])
            if address not in known:
                known[address] = request.get(opened.url + address).status
            if known[address] != 200:
                missing.append(f"{name}: {target}")
    assert not missing


@pytest.mark.parametrize("kind", list(KINDS))
def test_patterns_of_forms_are_those_of_browsers(visit: Visitor, kind: str) -> None:
    page = visit(f"/lakes/new?kind={kind}").page
    wrong = page.evaluate(
        """() => [...document.querySelectorAll("[pattern]")].filter((one) => {
          try { new RegExp(one.pattern, "v"); return false; } catch { return true; }
        }).map((one) => one.pattern)"""
    )
    assert not wrong


def test_all_can_be_reached_by_keyboard(visit: Visitor) -> None:
    page = visit("/").page
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    seen = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.textContent.trim().slice(0, 30)"))
    assert {"Home", "Runs", "Query", "Lakes", "Privacy", "Admin", "web", "ios"} <= seen
