"""Every action of the pages, by forms and buttons, as the roles that may and may not."""

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from playwright.sync_api import expect

from eventlake.control.audit import list_audit
from eventlake.control.connections import get_connection
from eventlake.control.roles import Role
from tests.pages.browser import find_violations
from tests.pages.conftest import Visitor
from tests.pages.site import PASSWORD, Site

REFUSED = "Failed to load resource"


def accept(page: object) -> None:
    page.on("dialog", lambda one: one.accept())  # type: ignore[attr-defined]


def actions(site: Site) -> list[str]:
    with site.database.read() as session:
        return [one.action for one in list_audit(session, before_id=None, limit=100)]


def test_logging_in_leads_to_the_page_that_was_asked_for(visit: Visitor) -> None:
    page = visit("/sources/web/history?state=failed", None).page
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.get_by_label("E-mail address").fill("operator@example.com")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="web")).to_be_visible()
    assert page.url.endswith("/sources/web/history?state=failed")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_text("You are logged out.")).to_be_visible()


def test_a_wrong_password_is_refused(visit: Visitor) -> None:
    opened = visit("/login", None)
    opened.expected.append(REFUSED)
    page = opened.page
    page.get_by_label("E-mail address").fill("operator@example.com")
    page.get_by_label("Password").fill("wrong wrong wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("wrong e-mail address or password")
    expect(page.get_by_label("E-mail address")).to_have_value("operator@example.com")
    assert not find_violations(page)


def test_logging_in_leads_to_no_other_site(visit: Visitor) -> None:
    page = visit("/login?next=//evil.example/x", None).page
    assert page.locator("input[name=next]").get_attribute("value") == "/"


def test_syncs_are_turned_off_and_on_by_an_operator(visit: Visitor, site: Site) -> None:
    page = visit("/sources/web", Role.OPERATOR).page
    expect(page.get_by_text("If you turn them off: no sync starts by itself.")).to_be_visible()
    page.get_by_role("button", name="Turn off").click()
    expect(page.get_by_role("status").first).to_contain_text("Scheduled syncs are off")
    expect(page.get_by_text("If you turn them on: the first sync is")).to_be_visible()
    page.get_by_role("button", name="Turn on").click()
    expect(page.get_by_text("Scheduled syncs are on.")).to_be_visible()
    assert {"schedule.disable", "schedule.enable"} <= set(actions(site))


def test_a_source_is_added_connected_and_removed(visit: Visitor) -> None:
    page = visit("/sources/new").page
    page.get_by_label("Name (slug)").fill("shop-2")
    page.get_by_label("Lake").select_option("")
    page.get_by_role("button", name="Add the source").click()
    expect(page.get_by_text("shop-2 is not connected to a lake.")).to_be_visible()
    page.get_by_role("button", name="Connect").click()
    expect(page.get_by_text("Nothing has landed in the last 30 days.")).to_be_visible()
    page.get_by_role("link", name="Settings").click()
    page.get_by_label("Type shop-2 to confirm").fill("shop-2")
    page.get_by_role("button", name="Remove").click()
    expect(page.get_by_text("Removed.", exact=True)).to_be_visible()


def test_a_slug_that_was_used_is_refused_with_the_form_kept(visit: Visitor) -> None:
    opened = visit("/sources/new")
    opened.expected.append(REFUSED)
    page = opened.page
    page.get_by_label("Name (slug)").fill("web")
    page.get_by_role("button", name="Add the source").click()
    expect(page.get_by_role("alert")).to_contain_text("a source has this slug")
    expect(page.get_by_label("Name (slug)")).to_have_value("web")


def test_a_wrong_slug_is_refused_by_the_browser(visit: Visitor) -> None:
    page = visit("/sources/new").page
    page.get_by_label("Name (slug)").fill("a b")
    page.get_by_role("button", name="Add the source").click()
    assert page.evaluate("document.querySelector('#slug').validity.patternMismatch")


def test_keys_are_added_and_revoked(visit: Visitor) -> None:
    page = visit("/sources/ios/keys").page
    accept(page)
    page.get_by_label("Key", exact=True).fill("second-key")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_text("A write key was added.")).to_be_visible()
    page.get_by_role("button", name="Revoke second-key").click()
    expect(page.get_by_text("The key was revoked.")).to_be_visible()
    expect(page.get_by_role("button", name="Revoke second-key")).to_have_count(0)


def test_a_dismissed_question_changes_nothing(visit: Visitor) -> None:
    page = visit("/sources/ios/keys").page
    page.on("dialog", lambda one: one.dismiss())
    page.get_by_role("button", name="Revoke ios-key-1").click()
    expect(page.get_by_role("button", name="Revoke ios-key-1")).to_be_visible()


def test_events_are_refused_and_accepted(visit: Visitor) -> None:
    page = visit("/sources/ios/keys").page
    accept(page)
    page.get_by_role("button", name="Refuse events").click()
    expect(page.locator(".state", has_text="Refused")).to_be_visible()
    page.get_by_role("button", name="Accept events").click()
    expect(page.locator(".state", has_text="Accepted")).to_be_visible()


def test_the_next_five_times_are_shown_before_saving(visit: Visitor) -> None:
    page = visit("/sources/ios/schedule").page
    page.get_by_label("every_seconds").fill("0")
    page.get_by_label("cron").fill("30 6 * * *")
    page.get_by_label("zone").fill("America/New_York")
    page.get_by_role("button", name="Show the next times").click()
    expect(page.get_by_role("heading", name="Next five times, if you save")).to_be_visible()
    expect(page.locator("ol time")).to_have_count(5)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved.", exact=True)).to_be_visible()
    expect(page.get_by_label("cron")).to_have_value("30 6 * * *")


def test_a_wrong_schedule_is_explained(visit: Visitor) -> None:
    opened = visit("/sources/ios/schedule")
    opened.expected.append(REFUSED)
    page = opened.page
    page.get_by_label("every_seconds").fill("0")
    page.get_by_label("cron").fill("never")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("five fields")
    expect(page.get_by_label("cron")).to_have_value("never")


def test_settings_are_changed_and_fixed_ones_say_why(visit: Visitor) -> None:
    page = visit("/sources/web/settings").page
    expect(page.get_by_label("date_partition")).to_be_disabled()
    expect(page.get_by_text("It cannot change while the source has tables").first).to_be_visible()
    page.get_by_label("dedup_days").fill("14")
    page.get_by_label("skip_events").fill("Noise\nDebug")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved.", exact=True)).to_be_visible()
    expect(page.get_by_label("skip_events")).to_have_value("Noise\nDebug")
    page.get_by_label("skip_events").fill("")
    page.get_by_label("dedup_days").fill("")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_label("skip_events")).to_have_value("")


def test_two_people_do_not_overwrite_each_other(visit: Visitor) -> None:
    first, second = visit("/sources/ios/settings"), visit("/sources/ios/settings")
    second.expected.append(REFUSED)
    first.page.get_by_label("dedup_days").fill("3")
    first.page.get_by_role("button", name="Save").click()
    expect(first.page.get_by_text("Saved.", exact=True)).to_be_visible()
    second.page.get_by_label("dedup_days").fill("4")
    second.page.get_by_role("button", name="Save").click()
    expect(second.page.get_by_role("alert")).to_contain_text("somebody else has changed it")


def test_a_table_is_switched_off_and_on_from_its_page(visit: Visitor, site: Site) -> None:
    page = visit("/sources/web/schema?table=cart_opened").page
    page.get_by_role("button", name="Switch off").click()
    expect(page.get_by_text("Events of this table are counted as skipped")).to_be_visible()
    assert not find_violations(page)
    with site.database.read() as session:
        assert get_connection(session, "web").resolved.skip_events == ("cart_opened",)
    page.get_by_role("link", name="All tables").click()
    expect(page.get_by_role("row").filter(has_text="cart_opened").first).to_contain_text("Switched")
    operator = visit("/sources/web/schema?table=cart_opened", Role.OPERATOR).page
    expect(operator.get_by_text("Switching it needs the role admin.")).to_be_visible()
    page.get_by_role("link", name="cart_opened").first.click()
    page.get_by_role("button", name="Switch on").click()
    expect(page.get_by_text("A replay lands older ones.")).to_be_visible()
    with site.database.read() as session:
        assert get_connection(session, "web").resolved.skip_events == ()


def test_help_and_pattern_of_a_lake_come_from_its_settings(visit: Visitor) -> None:
    page = visit("/lakes/new?kind=aws").page
    bucket = page.get_by_label("s3_bucket")
    expect(bucket).to_have_attribute("pattern", re.compile(r"\S"))
    expect(bucket).to_have_attribute("required", "")
    expect(page.get_by_text("The EMR release of temporary clusters")).to_be_visible()


def test_a_lake_is_checked_line_by_line_as_operator(visit: Visitor) -> None:
    page = visit("/lakes/main", Role.OPERATOR).page
    page.get_by_role("button", name="Check now").click()
    rows = page.locator("#checks tr")
    expect(rows.filter(has_text="access")).to_contain_text("OK")
    expect(page.locator("#check-status")).to_contain_text(
        re.compile(r"All \d+ passed|of \d+ failed")
    )
    assert rows.count() > 10
    assert not find_violations(page)


def test_a_refused_permission_has_the_statement_to_paste(visit: Visitor) -> None:
    page = visit("/lakes/new?kind=aws").page
    page.get_by_label("Name").fill("cloud")
    page.get_by_label("s3_bucket").fill("events")
    page.get_by_label("aws_region").fill("eu-west-1")
    page.get_by_role("button", name="Check these settings").click()
    row = page.locator("#checks tr").filter(has_text="write segment-data")
    expect(row).to_contain_text("grant s3:PutObject on arn:aws:s3:::events/segment-data/*")
    expect(page.locator("#check-status")).to_contain_text("failed")
    statement = json.loads(row.locator("pre").inner_text())
    assert statement == {
        "Effect": "Allow",
        "Action": ["s3:PutObject"],
        "Resource": ["arn:aws:s3:::events/segment-data/*"],
    }
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    row.get_by_role("button", name="Copy").click()
    assert json.loads(page.evaluate("navigator.clipboard.readText()")) == statement
    assert not find_violations(page)


def test_a_lake_is_checked_without_a_script(visit: Visitor) -> None:
    page = visit("/lakes/main", java_script_enabled=False).page
    page.get_by_role("button", name="Check now").click()
    expect(page.locator("#checks tr").filter(has_text="access")).to_contain_text("OK")


def test_settings_are_checked_before_a_lake_is_added(visit: Visitor, tmp_path: Path) -> None:
    page = visit("/lakes/new?kind=local").page
    page.get_by_label("Name").fill("second")
    page.get_by_label("path").fill(str(tmp_path / "missing"))
    page.get_by_role("button", name="Check these settings").click()
    expect(page.locator("#checks")).to_contain_text("no such folder")
    page.get_by_role("button", name="Add the lake").click()
    expect(page.get_by_role("heading", name="Lake second")).to_be_visible()
    expect(page.get_by_text("No source uses it yet.")).to_be_visible()


def test_the_place_of_a_lake_with_sources_cannot_change(visit: Visitor) -> None:
    page = visit("/lakes/main").page
    expect(page.get_by_label("path")).to_have_attribute("readonly", "")
    expect(page.get_by_text("It cannot change while sources are connected")).to_be_visible()


def test_a_query_shows_a_grid_and_a_chart(visit: Visitor) -> None:
    page = visit("/query", Role.OPERATOR).page
    page.get_by_role("button", name="web.order_completed").click()
    expect(page.get_by_label("SQL (DuckDB)")).to_have_value("web.order_completed")
    sql = "select user_id, count(*) as n from web.order_completed group by all order by all"
    page.get_by_label("SQL (DuckDB)").fill(sql)
    page.get_by_label("Chart").select_option("bar")
    page.get_by_label("SQL (DuckDB)").press("Control+Enter")
    expect(page.get_by_role("heading", name="7 rows in")).to_be_visible()
    expect(page.get_by_role("group", name="Result", exact=True)).to_contain_text("user-3")
    assert page.locator("svg.chart .bar").count() == 7
    page.get_by_label("Chart").select_option("line")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("polyline")).to_have_count(1)
    assert not find_violations(page)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("select * from web.order_complete", "Did you mean"),
        ("select * from read_csv('/etc/passwd')", "disabled"),
    ],
)
def test_a_query_that_may_not_be_is_explained(visit: Visitor, sql: str, message: str) -> None:
    opened = visit("/query", Role.OPERATOR)
    opened.expected.append(REFUSED)
    opened.page.get_by_label("SQL (DuckDB)").fill(sql)
    opened.page.get_by_role("button", name="Run", exact=True).click()
    expect(opened.page.get_by_role("alert")).to_contain_text(message)


def test_a_result_has_ten_thousand_rows_at_most(visit: Visitor) -> None:
    page = visit("/query", Role.OPERATOR).page
    page.get_by_label("SQL (DuckDB)").fill("select * from range(20000)")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("heading", name="10,000 rows in")).to_be_visible()
    expect(page.get_by_text("more than 10,000 rows")).to_be_visible()
    expect(page.get_by_text("The first 1,000 rows; CSV and Parquet have all.")).to_be_visible()


@pytest.mark.parametrize("form", ["CSV", "Parquet"])
def test_a_result_is_downloaded(visit: Visitor, form: str, tmp_path: Path) -> None:
    page = visit("/query", Role.OPERATOR).page
    page.get_by_label("SQL (DuckDB)").fill("select distinct currency from web.order_completed")
    with page.expect_download() as download:
        page.get_by_role("button", name=form).click()
    expect(page.get_by_role("button", name=form)).not_to_have_attribute("aria-busy", "true")
    path = tmp_path / "result"
    download.value.save_as(path)
    if form == "CSV":
        assert "EUR" in path.read_text()
    else:
        assert "EUR" in pq.read_table(path).column("currency").to_pylist()


def test_queries_are_saved_and_audited(visit: Visitor, site: Site) -> None:
    page = visit("/query", Role.OPERATOR).page
    accept(page)
    page.get_by_label("SQL (DuckDB)").fill("select 42 as answer")
    page.get_by_text("Save this query").click()
    page.get_by_label("Name").fill("the answer")
    page.get_by_label("Name").press("Enter")
    expect(page.get_by_text("Saved.", exact=True)).to_be_visible()
    expect(page.get_by_label("SQL (DuckDB)")).to_have_value("select 42 as answer")
    page.get_by_role("link", name="the answer").click()
    expect(page.get_by_label("SQL (DuckDB)")).to_have_value("select 42 as answer")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("group", name="Result", exact=True)).to_contain_text("42")
    page.get_by_role("button", name="Remove the answer").click()
    expect(page.get_by_text("Removed.", exact=True)).to_be_visible()
    assert {"query", "query.save", "query.remove"} <= set(actions(site))


def test_people_are_added_changed_and_removed(visit: Visitor) -> None:
    page = visit("/admin").page
    accept(page)
    page.get_by_label("E-mail address").fill("new@example.com")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_text("Added.", exact=True)).to_be_visible()
    page.get_by_label("Role of new@example.com", exact=True).select_option("operator")
    page.get_by_role("button", name="Change the role of new@example.com").click()
    expect(page.get_by_label("Role of new@example.com", exact=True)).to_have_value("operator")
    page.get_by_role("button", name="Remove new@example.com").click()
    expect(page.get_by_text("new@example.com")).to_have_count(0)


def test_the_last_admin_stays(visit: Visitor) -> None:
    opened = visit("/admin")
    opened.expected.append(REFUSED)
    accept(opened.page)
    opened.page.get_by_role("button", name="Remove admin@example.com").click()
    expect(opened.page.get_by_role("alert")).to_contain_text("is the only admin")


def test_a_token_is_shown_once(visit: Visitor) -> None:
    page = visit("/admin/tokens").page
    accept(page)
    page.get_by_label("Name").fill("ci")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.locator("#secret")).to_contain_text(re.compile("el_[a-z0-9]+_"))
    assert not find_violations(page)
    page.get_by_role("link", name="Tokens").click()
    expect(page.locator("#secret")).to_have_count(0)
    page.get_by_role("button", name="Remove ci").click()
    expect(page.get_by_text("No token yet.")).to_be_visible()


def test_the_audit_log_is_filtered_by_object(visit: Visitor) -> None:
    page = visit("/admin/audit").page
    page.get_by_label("Object").fill("source:ios")
    page.get_by_role("button", name="Filter").click()
    log = page.get_by_role("group", name="Audit log")
    expect(log).to_contain_text("source:ios")
    expect(log).not_to_contain_text("lake:main")
    log.get_by_text("Show").first.click()
    expect(log.locator("pre").first).to_be_visible()


def test_a_channel_is_added_tested_and_removed(visit: Visitor) -> None:
    page = visit("/admin/notices").page
    accept(page)
    page.locator("#mail-name").fill("ops")
    page.get_by_label("To", exact=True).fill("ops@example.com")
    page.get_by_label("SMTP server").fill("127.0.0.1")
    page.get_by_label("Port").fill("1")
    page.get_by_role("button", name="Add e-mail").click()
    expect(page.get_by_text("Added.", exact=True)).to_be_visible()
    page.locator("summary", has_text="Add a rule").click()
    page.get_by_label("Sources").fill("web")
    page.get_by_label("schema changed").check()
    page.get_by_label("stale").check()
    page.get_by_role("button", name="Add the rule").click()
    rules = page.get_by_role("group", name="Rules")
    expect(rules.get_by_role("row").nth(1)).to_contain_text("schema changed, stale")
    expect(rules.get_by_role("row").nth(1)).to_contain_text("web")
    page.get_by_role("button", name=re.compile("Remove rule")).click()
    expect(rules).to_have_count(0)
    page.get_by_role("button", name="Test ops").click()
    expect(page.get_by_text("Test of ops:")).to_be_visible()  # nothing listens there
    assert not find_violations(page)
    page.get_by_role("button", name="Remove ops").click()
    expect(page.get_by_text("No channel yet")).to_be_visible()


def test_a_webhook_shows_its_secret_once(visit: Visitor) -> None:
    page = visit("/admin/notices").page
    accept(page)
    page.locator("#hook-name").fill("hook")
    page.locator("#hook-url").fill("https://127.0.0.1:1/hook")
    page.get_by_role("button", name="Add webhook").click()
    expect(page.locator("#secret")).to_contain_text("whsec_")
    page.get_by_role("button", name="Remove hook").click()
    expect(page.get_by_text("Removed.", exact=True)).to_be_visible()


def test_the_workspace_as_code_shows_a_diff_before_it_is_applied(visit: Visitor) -> None:
    page = visit("/admin/code").page
    code = page.get_by_label("JSON")
    code.fill(code.input_value().replace('"dedup_days": 3', '"dedup_days": 5'))
    text = code.input_value()
    page.get_by_role("button", name="Show what would change").click()
    if '"dedup_days": 5' in text:
        expect(page.get_by_role("group", name="Changes")).to_contain_text("5")
        page.get_by_role("button", name="Apply").click()
        expect(page.get_by_text("Saved.", exact=True)).to_be_visible()
    else:
        expect(page.get_by_text("Nothing: the workspace is as the text says.")).to_be_visible()


def test_code_that_is_no_json_is_refused(visit: Visitor) -> None:
    opened = visit("/admin/code")
    opened.expected.append(REFUSED)
    opened.page.get_by_label("JSON").fill("{")
    opened.page.get_by_role("button", name="Show what would change").click()
    expect(opened.page.get_by_role("alert")).to_contain_text("this is not JSON")
    expect(opened.page.get_by_label("JSON")).to_have_value("{")


def test_users_are_suppressed_from_a_file_and_no_more(visit: Visitor, tmp_path: Path) -> None:
    page = visit("/privacy?lake=main").page
    (tmp_path / "ids.txt").write_text("user-100\nuser-101\n")
    page.get_by_label("Or a file of ids").set_input_files(tmp_path / "ids.txt")
    expect(page.locator("#users")).to_have_value(re.compile("user-101"))
    page.get_by_role("button", name="Suppress", exact=True).click()
    expect(page.get_by_role("list", name="Suppressed users")).to_contain_text("user-100")
    page.locator("#users").fill("user-100\nuser-101")
    page.get_by_role("button", name="Suppress no more").click()
    expect(page.get_by_text("Removed.", exact=True)).to_be_visible()


def test_forgetting_needs_the_typed_word(visit: Visitor) -> None:
    opened = visit("/privacy?lake=main")
    opened.expected.append(REFUSED)
    opened.page.locator("#forget-users").fill("user-1")
    opened.page.get_by_role("button", name="Forget", exact=True).click()
    expect(opened.page.get_by_role("alert")).to_contain_text("type forget to confirm")
