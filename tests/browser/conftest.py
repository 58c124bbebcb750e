"""A headless chromium, and a server of files on this machine."""

from __future__ import annotations

import functools
import http.server
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
CSS = "css selector"  # how elements are found, as selenium calls it


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


def serving(folder: Path) -> Iterator[str]:
    """The address of a server of `folder`, until the generator goes on."""
    handler = functools.partial(QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="open every page")


@pytest.fixture
def is_long(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--long"))


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    webdriver = pytest.importorskip(
        "selenium.webdriver", reason="want tests/browser/requirements.txt")
    chromium, driver = map(shutil.which, ("chromium", "chromedriver"))
    if chromium is None or driver is None:
        pytest.skip("no chromium and chromedriver (scripts/setup --browser)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu",
                     "--disable-dev-shm-usage", "--no-proxy-server",
                     "--window-size=1280,1000"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    opened = webdriver.Chrome(
        options, webdriver.ChromeService(executable_path=driver))
    opened.set_script_timeout(60)
    yield opened
    opened.quit()


@pytest.fixture
def console(browser: Any) -> Iterator[Any]:
    """Warnings and errors of the pages that a test opens; want none."""

    def lines() -> list[str]:
        return [line["message"] for line in browser.get_log("browser")
                if line["level"] in ("WARNING", "SEVERE")]

    lines()  # those of earlier tests
    yield lines
    assert lines() == []


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    """The address of what scripts/site has built."""
    folder = ROOT / "build" / "site"
    if not (folder / "index.html").exists():
        pytest.fail(f"{folder}: not there; scripts/site builds it")
    yield from serving(folder)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A folder, and its address."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "favicon.ico").touch()
    for address in serving(folder):
        yield folder, address
