"""A real browser: Debian's Chromium, driven by Playwright, with nothing of its own to ask the net.

Where Chromium is missing the tests are skipped with a warning; with STATETRACE_BROWSER=required, as
in continuous integration, they fail.
"""

import os
import shutil
import warnings

import pytest

from statetrace.reports.page import write_report
from tests.browser.visiting import PATIENCE, Visit
from tests.explorer.serving import serving
from tests.inspection.cases import zoo
from tests.reports.made import make

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--enable-unsafe-swiftshader",  # panels in space without a graphics card
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def chromium():
    """Its path, or a loud skip."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found:
        return found
    said = (
        "NO BROWSER TEST WAS RUN: Chromium is missing (apt-get install chromium, or set CHROMIUM)"
    )
    if os.environ.get("STATETRACE_BROWSER") == "required":
        pytest.fail(said)
    warnings.warn(said, stacklevel=1)
    pytest.skip(said)


@pytest.fixture(scope="session")
def browser(chromium):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=chromium, args=list(QUIET))
        yield found
        found.close()


@pytest.fixture(scope="session")
def report(tmp_path_factory, chromium):
    """Two runs side by side; the first has two checkpoints and a name that is a script."""
    folder = tmp_path_factory.mktemp("report")
    evil = make(folder / "<img src=x onerror=alert(1)>", steps=(300,))
    write_report([evil, make(folder / "theirs", "associative")], folder / "report.html")
    return folder / "report.html"


class Opened:
    """A page, and everything it complained about or asked for."""

    def __init__(self, browser, path, width=1440, theme="light"):
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=theme, accept_downloads=True
        )
        self.context.set_default_timeout(PATIENCE)
        self.errors, self.asked, self.dialogs = [], [], []
        self.page = self.context.new_page()
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on(
            "dialog", lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss())
        )
        self.page.goto(path.as_uri(), wait_until="domcontentloaded")
        self.page.wait_for_selector("html[data-ready=true]")

    def _heard(self, message):
        if message.type == "error":
            self.errors.append(message.text)

    def draw_all(self):
        self.page.evaluate("statetrace.drawAll()")

    def redrawn(self, figure, act):
        """Do something and wait until the figure has been drawn anew."""
        place = self.page.locator(f"#{figure}")
        place.scroll_into_view_if_needed()
        self.page.wait_for_function(f"document.getElementById('{figure}').dataset.drawn >= 1")
        before = int(place.get_attribute("data-drawn"))
        act()
        self.page.wait_for_function(f"document.getElementById('{figure}').dataset.drawn > {before}")

    def heat(self, figure, column=0):
        """The numbers in a heat map, as the plot has them."""
        return self.page.evaluate(
            f"document.querySelectorAll('#{figure} .column')[{column}].querySelector('.panel')"
            ".data.find((t) => t.type === 'heatmap').z"
        )


@pytest.fixture(scope="session")
def opened(browser, report):
    """Wide and light."""
    found = Opened(browser, report)
    found.draw_all()
    yield found
    found.context.close()


@pytest.fixture(scope="module")
def server(chromium):
    with serving(zoo()) as found:
        yield found


@pytest.fixture
def visit(browser, server):
    found = Visit(browser, server.url)
    yield found
    found.close()
