"""Reports in a browser: mouse and keyboard, light and dark, three sizes."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from conftest import CSS, check_accessible, set_scheme, take_picture

import holdfast

SIZES = ((1280, 1000), (800, 900), (390, 800))


def make_tree(step: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    layers = {
        f"{i}": {
            "attn": {key: rng.standard_normal((64, 64), np.float32)
                     for key in "qkv"},
            "mlp": np.full((64, 256), 0.5, np.float16),
        } for i in range(3)}
    layers["1"]["attn"]["q"][0, 0] = np.nan
    layers["2"]["attn"]["v"] += step
    return {"params": {"layers": layers, "bias": np.zeros(256, np.float32)},
            "<img src=x onerror=alert(1)>": np.arange(3), "name": "</script>"}


@pytest.fixture(scope="module")
def page(served: Any) -> str:
    """Returns the address of a report on a root with three steps."""
    folder, address = served
    root = folder / "run"
    for step in range(3):
        holdfast.save(root / str(step), make_tree(step))
    made = holdfast.report(root, folder / "report.html", verify_all=True,
                           against=root / "0", moved=True)
    assert made.damage_count == 0
    assert made.different_count == 1
    return f"{address}/report.html"


@pytest.fixture
def opened(browser: Any, console: Any, page: str) -> Iterator[Any]:
    browser.set_window_size(*SIZES[0])
    browser.get(page)
    yield browser


def text_of(browser: Any, selector: str) -> str:
    return browser.find_element(CSS, selector).text


def rows(browser: Any) -> list[str]:
    return [cell.text for cell in browser.find_elements(
        CSS, "#children tbody td:first-child")]


def press(browser: Any, *keys: str) -> None:
    from selenium.webdriver import ActionChains

    ActionChains(browser).send_keys(*keys).perform()


def test_shows_what_is_there(opened: Any) -> None:
    assert text_of(opened, "h1") == "Checkpoint 2"
    badges = text_of(opened, "#badges")
    assert "verified" in badges and "NaN or infinities: 1" in badges
    assert "1 leaves differ from" in badges
    assert "3 steps" in text_of(opened, "#run-table")
    # A name that is markup is shown as text.
    assert "<img src=x onerror=alert(1)>" in rows(opened)
    assert opened.find_elements(CSS, "img") == []
    assert opened.execute_script(
        "return performance.getEntriesByType('resource').length") == 0


def test_by_mouse(opened: Any) -> None:
    for name in ("params/", "layers/", "1/", "attn/"):
        opened.find_element("xpath", f"//td/button[text()='{name}']").click()
    assert rows(opened) == ["k", "q", "v"]
    opened.find_element("xpath", "//td/button[text()='q']").click()
    detail = text_of(opened, "#detail")
    assert "params.layers.1.attn.q" in detail and "float32[64,64]" in detail
    assert len(opened.find_elements(CSS, "#detail rect.bar")) > 5
    opened.find_element("xpath", "//ol/li/button[text()='layers']").click()
    assert rows(opened) == ["0/", "1/", "2/"]
    # The map's boxes lead to the same places.
    opened.find_element(CSS, "#map div[title^='params.layers.2.mlp']").click()
    assert "params.layers.2.mlp" in text_of(opened, "#detail")
    opened.find_element(CSS, "#colour option[value=moved]").click()
    fills = {box.get_attribute("title").split("\n")[0]:
             box.value_of_css_property("background-color")
             for box in opened.find_elements(CSS, "#map div")}
    assert fills["params.layers.2"] != fills["params.layers.0"]


def test_by_keyboard(opened: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    press(opened, "/")
    press(opened, "attn.v")
    assert rows(opened) == [f"params.layers.{i}.attn.v" for i in range(3)]
    press(opened, Keys.ESCAPE)
    assert "params/" in rows(opened)
    focused = opened.switch_to.active_element
    assert focused.text in rows(opened)
    for name in ("params/", "layers/"):
        opened.execute_script(
            "[...document.querySelectorAll('td button')].find("
            "(b) => b.textContent === arguments[0]).focus()", name)
        press(opened, Keys.ENTER)
    assert rows(opened) == ["0/", "1/", "2/"]
    press(opened, "u")
    assert rows(opened) == ["bias", "layers/"]
    press(opened, Keys.BACKSPACE)
    assert "params/" in rows(opened)


def test_shows_what_moved(opened: Any) -> None:
    table = "#moved-table"
    assert "from before 1 to 2" in text_of(opened, f"{table} caption")
    cells = opened.find_elements(CSS, f"{table} tbody tr")
    params = next(row for row in cells if row.text.startswith("params"))
    strip = params.find_element(CSS, "svg")
    assert strip.get_attribute("aria-label").startswith(
        "params: moved most, by ")
    assert len(strip.find_elements(CSS, "rect")) == 2
    for name in ("params/", "layers/"):
        opened.find_element("xpath", f"//td/button[text()='{name}']").click()
    still = opened.find_element("xpath", "//table[@id='moved-table']//tr[1]")
    assert still.text.split() == ["0", "0"]
    assert still.find_elements(CSS, "rect") == []


def test_sorts(opened: Any) -> None:
    opened.find_element("xpath", "//td/button[text()='params/']").click()
    for want in (["layers/", "bias"], ["bias", "layers/"]):
        opened.find_element(
            "xpath", "//th/button[starts-with(., 'parameters')]").click()
        assert rows(opened) == want
    assert len(opened.find_elements(CSS, "th[aria-sort]")) == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}")
def test_fits_and_is_accessible(
    opened: Any, scheme: str, size: tuple[int, int], pictures: pathlib.Path
) -> None:
    """The page passes while the details of a tensor are open."""
    set_scheme(opened, scheme)
    opened.set_window_size(*size)
    opened.refresh()
    for name in ("params/", "bias"):
        opened.find_element("xpath", f"//td/button[text()='{name}']").click()
    back = opened.find_element(CSS, "body").value_of_css_property(
        "background-color")
    assert (back == "rgba(255, 255, 255, 1)") == (scheme == "light")
    check_accessible(opened)
    take_picture(opened, pictures, f"report-{scheme}-{size[0]}")


def test_ten_thousand_leaves_in_two_megabytes(
    browser: Any, console: Any, served: Any
) -> None:
    folder, address = served
    rng = np.random.default_rng(1)
    tree = {f"layer_{i}": {f"weight_{j}": rng.standard_normal(8, np.float32)
                           for j in range(100)} for i in range(100)}
    holdfast.save(folder / "many", tree)
    made = holdfast.report(folder / "many", folder / "many.html")
    assert made.leaf_count == 10_000
    assert len(made.html.encode()) < 2_000_000
    browser.get(f"{address}/many.html")
    assert len(rows(browser)) == 100


def test_in_a_notebooks_frame(
    browser: Any, console: Any, served: Any
) -> None:
    folder, address = served
    holdfast.save(folder / "one", {"w": np.ones(3)})
    html = holdfast.report(folder / "one")._repr_html_()
    (folder / "frame.html").write_text(f"<!doctype html>{html}")
    browser.get(f"{address}/frame.html")
    browser.switch_to.frame(browser.find_element(CSS, "iframe"))
    assert rows(browser) == ["w"]
    browser.switch_to.default_content()
