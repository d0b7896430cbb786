"""The HTML export in a real browser: silent, usable by click and by keyboard, on any screen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import Opened

if TYPE_CHECKING:
    from playwright.sync_api import Page

NewPage = Callable[..., Opened]
FORK, OTHER, LAST = "84f30880", "ada8bed8", "4b1295b7"  # where the sample parts, the branch left behind, its leaf


# What content might have brought in, and whether every article is where the page puts it.
FOUND = """(() => {
  const all = [...document.querySelectorAll("*")];
  return {
    foreign: all.filter((each) => each.matches("iframe, object, embed, form, base, frame, math, plaintext, xmp")
      || (each.localName === "svg" && !each.closest("#rows"))).length,
    scripts: document.scripts.length,
    styles: document.querySelectorAll("style, link").length,
    handlers: all.filter((each) => !each.closest("#rows")).flatMap((each) => [...each.attributes]
      .filter(({ name }) => /^on|^style$/.test(name)).map(({ name, value }) => `${name}=${value}`)),
    strays: document.querySelectorAll("article:not(main > section > article)").length,
  };
})()"""
NAMELESS = """[...document.querySelectorAll("button, select, input, a, img")].filter((each) => !(each.textContent.trim()
  || each.getAttribute("aria-label") || each.alt || each.labels?.length)).map((each) => each.outerHTML)"""
LAY_OUT_ALL = "for (const each of document.querySelectorAll('.entry')) each.style.contentVisibility = 'visible'"
TOO_WIDE = """[...document.querySelectorAll(".entry, .entry > *, .fork")]
  .filter((each) => each.getBoundingClientRect().right > innerWidth + 1).map((each) => each.outerHTML.slice(0, 200))"""


def settle(page: Page) -> None:
    """Leave the page a moment to draw what the last key or click asked for."""
    page.wait_for_timeout(60)


def here(page: Page) -> str:
    """Return the id of the entry the person is at."""
    settle(page)
    return str(page.evaluate("document.querySelector('.entry.here')?.id ?? ''")).removeprefix("e-")


def shown(page: Page, entry_id: str) -> bool:
    """Whether an entry is on the path shown."""
    settle(page)
    return page.locator(f"#e-{entry_id}").is_visible()


def in_sight(page: Page, entry_id: str) -> bool:
    """Whether an entry has been scrolled to."""
    settle(page)
    box = page.locator(f"#e-{entry_id}").bounding_box()
    return box is not None and -5 <= box["y"] < 900


def found(page: Page, text: str) -> None:
    """Wait until the search says so."""
    from playwright.sync_api import expect

    expect(page.locator("#found")).to_contain_text(text)


def test_a_page_opens_without_a_word_and_without_a_request(new_page: NewPage, sample: Path) -> None:
    page = new_page().open(sample)
    assert page.title() == "Nightly import loses its lease"
    assert shown(page, LAST)
    assert not shown(page, OTHER)
    page.wait_for_timeout(300)


def test_the_tree_is_walked_by_click(new_page: NewPage, sample: Path) -> None:
    page = new_page().open(sample)
    page.locator("#tree .row", has_text="Makes sense. Take the simple way").click()
    assert shown(page, OTHER)
    assert not shown(page, LAST)
    assert here(page) == OTHER
    assert in_sight(page, OTHER)
    assert page.url.endswith(f"#e-{OTHER}")
    page.go_back()
    page.locator("#tree .row", has_text="Two things").click()
    assert shown(page, LAST)
    assert in_sight(page, LAST)


def test_the_tree_is_walked_by_keyboard(new_page: NewPage, sample: Path) -> None:
    page = new_page().open(sample)
    page.keyboard.press("g")
    page.keyboard.press("Home")
    settle(page)
    active = page.locator(f"#{page.locator('#tree').get_attribute('aria-activedescendant')}").inner_text()
    assert "careful coding agent" in active
    page.keyboard.press("End")
    settle(page)
    page.keyboard.press("Enter")
    assert not shown(page, LAST)
    assert here(page)
    count = page.locator("#tree .row").count()
    page.keyboard.press("g")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowLeft")
    settle(page)
    assert page.locator("#tree .row").count() == 1
    page.keyboard.press("ArrowRight")
    settle(page)
    assert page.locator("#tree .row").count() == count


def test_branches_are_switched_in_place(new_page: NewPage, sample: Path) -> None:
    page = new_page().open(sample)
    way = page.locator(".fork a", has_text="Makes sense")
    way.click()
    assert way.get_attribute("aria-current") == "true"
    assert shown(page, OTHER)
    page.keyboard.press("]")
    assert not shown(page, OTHER)
    assert shown(page, LAST)
    page.keyboard.press("[")
    assert shown(page, OTHER)
    page.locator("#branch").select_option("main")
    assert shown(page, LAST)
    assert in_sight(page, LAST)


def test_search_reaches_all_branches_by_keyboard(new_page: NewPage, sample: Path) -> None:
    page = new_page().open(sample)
    page.keyboard.press("/")
    page.keyboard.type("six HOURS simple")
    page.keyboard.press("Enter")
    assert here(page) == OTHER
    assert shown(page, OTHER)
    assert page.locator("#found").inner_text().startswith("1 of ")
    page.keyboard.press("Escape")
    assert page.locator("#find").input_value() == ""
    assert page.locator("#tree .row").count() > 20


def test_search_works_by_click_and_opens_what_is_folded(new_page: NewPage, sample: Path) -> None:
    page = new_page().open(sample)
    page.locator("#find").fill("LEASE_TTL_S = 3600")
    found(page, "found")
    rows = page.locator("#tree .row")
    assert rows.count() >= 1
    rows.first.click()
    assert page.locator(".entry.here .fold.open").count() == 1
    assert page.evaluate("CSS.highlights.get('hits').size") >= 3
    page.locator("#after").click()
    page.locator("#find").fill("no such words anywhere")
    found(page, "0 found")


def test_entries_are_walked_by_keyboard(new_page: NewPage, sample: Path) -> None:
    page = new_page().open(sample)
    page.keyboard.press("u")
    assert here(page) == "76a1bf01"
    page.keyboard.press("j")
    first = here(page)
    assert first == "a3820b42"
    page.keyboard.press("k")
    assert here(page) == "76a1bf01"
    assert page.evaluate("document.activeElement.id") == "e-76a1bf01"


def test_tools_and_thinking_fold(new_page: NewPage, sample: Path) -> None:
    page = new_page().open(sample)
    tools, thinking = page.locator(".fold.call.open"), page.locator(".fold.thinking.open")
    assert tools.count() == thinking.count() == 0
    page.keyboard.press("t")
    page.locator("#thinking").click()
    assert tools.count() > 10
    assert thinking.count() > 2
    assert page.locator("#tools").get_attribute("aria-pressed") == "true"
    page.keyboard.press("t")
    assert tools.count() == 0
    one = page.locator(".fold.call .sum:visible").first
    one.focus()
    page.keyboard.press("Enter")
    assert one.get_attribute("aria-expanded") == "true"


def test_a_link_to_an_entry_is_copied_and_followed(new_page: NewPage, sample: Path) -> None:
    opened = new_page(permissions=["clipboard-read", "clipboard-write"])
    page = opened.open(sample)
    page.locator("#e-84f30880 .link").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == f"file://{sample}#e-84f30880"
    page = new_page().open(sample, f"#e-{OTHER}")
    assert shown(page, OTHER)
    assert in_sight(page, OTHER)


def test_light_and_dark(new_page: NewPage, sample: Path) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    light = new_page(color_scheme="light").open(sample)
    dark = new_page(color_scheme="dark").open(sample)
    assert light.evaluate(colour) != dark.evaluate(colour)
    light.keyboard.press("l")
    assert light.evaluate(colour) == dark.evaluate(colour)
    dark.keyboard.press("l")
    assert light.evaluate(colour) != dark.evaluate(colour)


def test_a_phone_shows_the_talk_and_opens_the_tree(new_page: NewPage, sample: Path) -> None:
    page = new_page(viewport={"width": 390, "height": 800}, has_touch=True).open(sample)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    # However long the branch is called, every button of the toolbar is on the screen.
    page.evaluate("document.querySelector('#branch').selectedOptions[0].text = 'release candidate '.repeat(9)")
    for name in ("tools", "thinking", "theme", "keys"):
        box = page.locator(f"#{name}").bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
    assert not page.locator("#tree").is_visible()
    page.locator("#side-button").tap()
    page.locator("#tree .row", has_text="The nightly import").first.tap()
    assert not page.locator("#tree").is_visible()
    assert here(page) == "76a1bf01"


def test_paper_gets_the_talk_alone(new_page: NewPage, sample: Path) -> None:
    page = new_page().open(sample)
    page.emulate_media(media="print")
    for gone in ("#tree", "#find", "#tools", ".fork"):
        assert not page.locator(gone).first.is_visible()
    assert shown(page, LAST)
    assert len(page.pdf()) > 20_000


def test_everything_can_be_read_without_the_script(new_page: NewPage, sample: Path) -> None:
    opened = new_page(java_script_enabled=False)
    opened.page.goto(f"file://{sample}")
    assert shown(opened.page, LAST)
    assert shown(opened.page, OTHER)
    assert opened.page.get_by_text("LEASE_TTL_S = 3600").first.is_visible()
    assert not opened.page.locator("#find").is_visible()


def test_names_and_roles_are_there_for_screen_readers(new_page: NewPage, sample: Path) -> None:
    page = new_page().open(sample)
    assert page.evaluate(NAMELESS) == []
    tree = page.get_by_role("tree", name="Tree of the session")
    items = tree.get_by_role("treeitem")
    assert items.count() > 20
    assert items.first.get_attribute("aria-level") == "1"
    assert items.first.get_attribute("aria-setsize") == str(items.count())
    for role in ("banner", "main", "search", "complementary"):
        assert page.get_by_role(role).count() == 1
    assert page.get_by_role("heading", level=1).count() == 1
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the conversation"
    page.keyboard.press("?")
    assert page.get_by_role("dialog", name="Keys").is_visible()
    page.keyboard.press("Escape")
    assert not page.get_by_role("dialog").is_visible()


@pytest.mark.parametrize("width", [1360, 390])
def test_hostile_content_runs_nothing_and_breaks_nothing(new_page: NewPage, hostile: Path, width: int) -> None:
    page = new_page(viewport={"width": width, "height": 900}).open(hostile)
    page.keyboard.press("t")
    page.keyboard.press("i")
    assert page.evaluate(FOUND) == {"foreign": 0, "scripts": 3, "styles": 2, "handlers": [], "strays": 0}
    addresses = page.evaluate("[...document.querySelectorAll('a')].map((each) => each.getAttribute('href'))")
    assert {address for address in addresses if not address.startswith("#")} == {"https://evil.example/pixel.png"}
    page.evaluate(LAY_OUT_ALL)
    page.wait_for_timeout(300)
    assert page.evaluate("window.owned") is None
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(TOO_WIDE) == []
    assert page.get_by_text("LAST-MESSAGE-MARKER").last.is_visible()
    text = page.evaluate("document.body.textContent")
    assert "{{ 7 * 7 }} {% for x in y %}" in text
    assert not set(text) & set("\u202e\u2066\x1b\x07\x9b")


def test_hostile_content_is_found_by_search(new_page: NewPage, hostile: Path) -> None:
    page = new_page().open(hostile)
    page.locator("#find").fill("<svg onload=")
    found(page, "found")
    assert page.locator("#tree .row").count() > 3
    page.keyboard.press("Enter")
    assert page.evaluate("window.owned") is None


def test_ten_thousand_entries_are_usable_within_two_seconds(new_page: NewPage, large: Path) -> None:
    times = []
    for _ in range(3):
        page = new_page().open(large)
        page.locator("#tree").focus()
        page.keyboard.press("End")
        page.keyboard.press("Enter")
        assert here(page)
        times.append(page.evaluate("performance.now()"))
        if times[-1] < 2000:
            break
    assert min(times) < 2000, times
    page.keyboard.press("/")
    started = page.evaluate("performance.now()")
    page.keyboard.type("needle-3")
    page.keyboard.press("Enter")
    assert page.locator("#found").inner_text().startswith("1 of ")
    assert page.evaluate("performance.now()") - started < 3000
    assert page.locator("#tree .row").count() < 200
