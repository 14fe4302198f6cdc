"""Makes the pictures of the pages in docs/images: `make screenshots`."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser, Page

from eventlake.control.roles import Role
from tests.pages.browser import running_browser, visiting
from tests.pages.site import Site, add_history, make_workspace, serving

IMAGES = Path(__file__).parents[2] / "docs/images"
SIZE = {"width": 1080, "height": 640}
PICTURES = {
    "home": "/",
    "source": "/sources/web",
    "run": "/runs/1",
    "run-failed": "/runs/3",
    "table": "/sources/web/schema?table=order_completed",
    "quarantine": "/sources/web/quarantine?show=2",
    "replay": "/sources/web/replay",
    "privacy": "/privacy",
}
SQL = """select user_id, count(*) as orders
from web.order_completed
group by all order by all"""


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder, running_browser() as browser:
        site = make_workspace(Path(folder))
        add_history(site)
        with serving(site):
            admin = site.sessions[Role.ADMIN]
            options = {"viewport": SIZE, "color_scheme": "light"}
            with visiting(browser, site.url, admin, **options) as visit:
                for name, path in PICTURES.items():
                    visit.open(path)
                    visit.page.screenshot(path=IMAGES / f"{name}.png")
                _run_query(visit.open("/query"))
                visit.page.screenshot(path=IMAGES / "query.png")
            _picture_dark(browser, site, admin)
    sizes = sum(path.stat().st_size for path in IMAGES.glob("*.png"))
    sys.stdout.write(f"{len(list(IMAGES.glob('*.png')))} pictures, {sizes // 1000} kB\n")


def _run_query(page: Page) -> None:
    page.get_by_label("SQL (DuckDB)").fill(SQL)
    page.get_by_label("Chart").select_option("bar")
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("group", name="Result", exact=True).wait_for()


def _picture_dark(browser: Browser, site: Site, session: str) -> None:
    small = {"viewport": {"width": 390, "height": 700}, "color_scheme": "dark"}
    with visiting(browser, site.url, session, **small) as visit:
        visit.open("/")
        visit.page.screenshot(path=IMAGES / "dark.png")


if __name__ == "__main__":
    main()
