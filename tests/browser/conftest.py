"""A headless Chromium to open pages in. `CHROMIUM` names it; without it these tests are not collected."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser import pages

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = os.environ.get("CHROMIUM", "")
collect_ignore_glob = [] if CHROMIUM else ["test_*.py"]
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


class Opened:
    """A page and everything it did that it should not.

    Attributes:
        page: Playwright's page.
        complaints: Console errors and warnings, uncaught errors, dialogs, requests other than for the page itself.
    """

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (self.complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", self._request)

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"console: {message.text}")

    def _request(self, request: Any) -> None:
        if not request.url.startswith("data:image/") and not request.is_navigation_request():
            self.complaints.append(f"request: {request.url}")

    def open(self, path: Path, fragment: str = "") -> Page:
        """Open a file and wait until its script is ready."""
        self.page.goto(f"file://{path}{fragment}")
        self.page.wait_for_selector("html[data-ready]", state="attached")
        return self.page


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Start the browser once."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield started
        started.close()


@pytest.fixture
def new_page(browser: Browser) -> Iterator[Callable[..., Opened]]:
    """Give pages in fresh contexts; afterwards none of them may have complained."""
    contexts = []
    opened: list[Opened] = []

    def make(**options: Any) -> Opened:
        context = browser.new_context(**{"viewport": {"width": 1360, "height": 900}, **options})
        context.set_default_timeout(10_000)
        contexts.append(context)
        opened.append(Opened(context.new_page()))
        return opened[-1]

    yield make
    complaints = [complaint for each in opened for complaint in each.complaints]
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's session, with branches, tools, thinking, a label and a compaction."""
    return pages.write(pages.from_file(pages.SAMPLE), tmp_path_factory.mktemp("pages") / "sample.html")


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session that attacks the page wherever it can."""
    return pages.write(pages.hostile(), tmp_path_factory.mktemp("pages") / "hostile.html")


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session of 10,000 entries."""
    return pages.write(pages.large(10_000), tmp_path_factory.mktemp("pages") / "large.html")
