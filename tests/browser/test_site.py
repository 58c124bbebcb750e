"""The documents as a site, in a browser: links, search, no console errors."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable
from typing import Any

import pytest
from conftest import CSS, ROOT

PAGES = sorted(
    path.relative_to(ROOT / "build" / "site").as_posix()
    for path in (ROOT / "build" / "site").rglob("*.html"))

# Returns each page's title, the targets of its links, and the ids that links
# can lead to. Parses the pages without showing them; relative links are
# resolved against the page's address.
_READ_PAGES = """
const done = arguments[arguments.length - 1];
Promise.all(arguments[0].map(async (url) => {
  const text = await (await fetch(url)).text();
  const page = new DOMParser().parseFromString(text, "text/html");
  return {
    links: [...page.querySelectorAll("a[href]")].map(
        (link) => new URL(link.getAttribute("href"), url).href),
    ids: [...page.querySelectorAll("[id],a[name]")].map(
        (element) => element.id || element.name),
    title: page.title,
  };
})).then(done);
"""

_READ_LOADED = """
return {
  images: [...document.images].filter(
      (image) => image.complete && !image.naturalWidth).map((i) => i.src),
  loaded: performance.getEntriesByType("resource").map((entry) => entry.name),
};
"""


def test_there_are_pages() -> None:
    assert "index.html" in PAGES and len(PAGES) > 50


def test_links_lead_somewhere(browser: Any, console: Any, site: str) -> None:
    """Every link on every page leads to an existing page and anchor."""
    browser.get(f"{site}/index.html")
    urls = [f"{site}/{page}" for page in PAGES]
    read = browser.execute_async_script(_READ_PAGES, urls)
    seen = {f"/{page}": found for page, found in zip(PAGES, read, strict=True)}
    assert [page for page, found in seen.items() if not found["title"]] == []
    wrong = []
    for page, found in seen.items():
        for link in found["links"]:
            problem = _problem(link, site, seen)
            if problem:
                wrong.append(f"{page}: {link}: {problem}")
    assert wrong == []


def test_pages_open(
    browser: Any, console: Any, site: str, is_long: bool
) -> None:
    """Images load, nothing comes from another server, and the console stays
    empty."""
    headers = [page for page in PAGES if page.startswith("reference/cpp/")]
    wrong = []
    for page in PAGES:
        # One generator makes all header pages: two suffice without --long.
        if not is_long and page in headers[2:]:
            continue
        browser.get(f"{site}/{page}")
        assert browser.current_url.startswith(f"{site}/{page}")
        found = browser.execute_script(_READ_LOADED)
        wrong += [f"{page}: no image {image}" for image in found["images"]]
        wrong += [f"{page} loads {url}" for url in found["loaded"]
                  if not url.startswith((site, "data:", "blob:"))]
    assert wrong == []


def _problem(link: str, site: str, seen: dict[str, Any]) -> str:
    url = urllib.parse.urlsplit(link)
    if not link.startswith(site):
        return "" if url.scheme in ("http", "https", "mailto") else "no page"
    path = urllib.parse.unquote(url.path)
    if path.endswith("/"):
        path += "index.html"
    anchor = urllib.parse.unquote(url.fragment)
    if path not in seen:
        file = ROOT / "build" / "site" / path.lstrip("/")
        return "" if file.is_file() and not anchor else "no such page"
    if anchor and anchor not in seen[path]["ids"]:
        return "no such anchor"
    return ""


def wait_for(browser: Any, found: Callable[[], Any]) -> Any:
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, 60).until(lambda _: found())


@pytest.mark.parametrize(
    ("words", "page"),
    [("CheckpointManager", "reference/"), ("StorageWriter", "migrating-torch"),
     ("damage", "durability")])
def test_search_finds(
    browser: Any, console: Any, site: str, words: str, page: str
) -> None:
    """The search finds the expected page, and its link opens it."""
    browser.get(f"{site}/index.html")
    browser.find_element(CSS, ".md-search__input").send_keys(words)
    # The first letters find pages, too: wait for the whole word's results.
    found = wait_for(browser, lambda: [
        link for link in browser.find_elements(
            CSS, "a.md-search-result__link")
        if page in link.get_attribute("href")])
    target = found[0].get_attribute("href").split("?")[0]
    browser.execute_script("arguments[0].click()", found[0])
    wait_for(browser, lambda: browser.current_url.startswith(target))
    text = browser.find_element(CSS, "article").text
    assert words.lower() in text.lower()


def test_colours_change(browser: Any, console: Any, site: str) -> None:
    browser.get(f"{site}/index.html")

    def scheme() -> str:
        return browser.find_element(
            CSS, "body").get_attribute("data-md-color-scheme")

    before = scheme()
    button = browser.find_element(
        CSS, "label[for^='__palette_']:not([hidden])")
    browser.execute_script("arguments[0].click()", button)
    wait_for(browser, lambda: scheme() != before)
