"""`holdfast serve` in a browser: pages, steps, files; mouse and keyboard."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import CSS, check_accessible, set_scheme, take_picture
from test_report import SIZES, make_tree, press, rows, text_of

import holdfast


@pytest.fixture(scope="module")
def address(tmp_path_factory: Any) -> Iterator[str]:
    """Serves a root with two steps; yields the address."""
    command = [sys.executable, "-m", "holdfast", "serve"]
    root = tmp_path_factory.mktemp("served") / "run"
    for step in range(2):
        holdfast.save(root / str(step), make_tree(step))
    with subprocess.Popen([*command, "--port", "0", "--quiet", root],
                          stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.terminate()


@pytest.fixture
def opened(browser: Any, console: Any, address: str) -> Iterator[Any]:
    browser.set_window_size(*SIZES[0])
    browser.get(address)
    yield browser


def link(browser: Any, text: str) -> Any:
    return browser.find_element("link text", text)


def test_pages_of_steps(opened: Any, address: str) -> None:
    assert text_of(opened, "h1") == "Checkpoint 1"
    assert "params/" in rows(opened)
    opened.get(f"{address}at/run/0/")
    assert text_of(opened, "h1") == "Checkpoint 0"
    # Nothing was measured yet; the page with statistics is one link away.
    link(opened, "this page with statistics of all tensors").click()
    assert "NaN or infinities: 1" in text_of(opened, "#badges")


def test_files_by_mouse_and_keyboard(opened: Any, address: str) -> None:
    from selenium.webdriver.common.keys import Keys

    link(opened, "as/zarr/").click()
    assert text_of(opened, "h1") == "as/zarr/"
    link(opened, "params.bias/").send_keys(Keys.ENTER)
    names = [each.text for each in opened.find_elements(CSS, "li a")]
    assert names == [".zarray", ".zattrs", "0"]
    href = link(opened, "0").get_attribute("href")
    with urllib.request.urlopen(href) as answer:
        assert len(answer.read()) == 256 * 4
    # A name that is markup is shown as text.
    opened.get(f"{address}as/zarr/")
    assert opened.find_elements(CSS, "img") == []
    opened.get(address)
    press(opened, "/", "attn.v")
    assert len(rows(opened)) == 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}")
def test_fits_and_is_accessible(
    opened: Any, address: str, scheme: str, size: tuple[int, int],
    pictures: Any,
) -> None:
    set_scheme(opened, scheme)
    opened.set_window_size(*size)
    for path in ("", "as/zarr/"):
        opened.get(address + path)
        check_accessible(opened)
    opened.get(f"{address}at/run/1/?statistics=1")
    take_picture(opened, pictures, f"serve-{scheme}-{size[0]}")
