"""Fixtures: a headless chromium, and a local file server."""

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
    """Serves `folder` and yields the address; stops when resumed."""
    handler = functools.partial(QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pictures", help="keep pictures in this folder "
                     "(doc/pictures has those of doc/see.md)")


@pytest.fixture
def pictures(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Returns the folder that pictures are saved in."""
    asked = request.config.getoption("--pictures")
    return Path(asked) if asked else tmp_path


def take_picture(browser: Any, folder: Path, name: str) -> None:
    picture = folder / f"{name}.png"
    # Hides the machine's temporary directory, which the page shows.
    browser.execute_script(
        "document.querySelector('h1 + p').textContent = '/ckpt'")
    assert browser.save_screenshot(str(picture))
    assert picture.stat().st_size > 10_000


def set_scheme(browser: Any, scheme: str) -> None:
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
        "features": [{"name": "prefers-color-scheme", "value": scheme}]})


def check_accessible(browser: Any) -> None:
    """Checks that the page fits the width and that axe finds no problem."""
    axe = pytest.importorskip("axe_core_python",
                              reason="want tests/browser/requirements.txt")
    assert browser.execute_script(
        "return document.documentElement.scrollWidth <= innerWidth")
    script = Path(axe.__file__).with_name("axe.min.js").read_text()
    browser.execute_script(script)
    found = browser.execute_async_script(
        "axe.run().then(arguments[arguments.length - 1])")
    assert [(each["id"], each["nodes"][0]["html"][:200])
            for each in found["violations"]] == []


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
    """Fails the test if a page that it opens logs a warning or an error.

    Yields a function that returns the messages logged since its last call.
    """

    def lines() -> list[str]:
        return [line["message"] for line in browser.get_log("browser")
                if line["level"] in ("WARNING", "SEVERE")]

    lines()  # drops the messages of earlier tests
    yield lines
    assert lines() == []


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    """Serves the site that scripts/site has built; yields its address."""
    folder = ROOT / "build" / "site"
    if not (folder / "index.html").exists():
        pytest.fail(f"{folder}: not there; scripts/site builds it")
    yield from serving(folder)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Serves an empty folder; yields the folder and its address."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "favicon.ico").touch()
    for address in serving(folder):
        yield folder, address
