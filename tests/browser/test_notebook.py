"""How notebooks display checkpoints, in a browser: every leaf is there, folded
by module, searchable, largest first."""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from typing import Any

import pytest
from conftest import CSS

np = pytest.importorskip("numpy")
holdfast = pytest.importorskip("holdfast")


@pytest.fixture
def show(browser: Any, console: Any, served: Any) -> Any:
    """Returns a function that opens a page with several cell outputs, as in a
    notebook."""
    folder, address = served

    def open_page(*outputs: str) -> None:
        body = "".join(f'<div class="output">{text}</div>' for text in outputs)
        # A new name each time: the browser caches pages.
        name = f"{uuid.uuid4()}.html"
        (folder / name).write_text(
            f"<!doctype html><meta charset=utf-8><title>page</title>{body}",
            encoding="utf-8")
        browser.get(f"{address}/{name}")

    return open_page


def views(browser: Any) -> list[Any]:
    return browser.find_elements(CSS, ".holdfast-view")


def seen(view: Any, selector: str) -> list[str]:
    """Returns the texts of the visible elements, from top to bottom."""
    found: list[str] = view.parent.execute_script(
        "return [...arguments[0].querySelectorAll(arguments[1])].filter("
        "(element) => element.checkVisibility()).map("
        "(element) => element.innerText.trim());", view, selector)
    return found


def rows(view: Any) -> list[str]:
    return seen(view, "tbody>tr>td:first-child")


def modules(view: Any) -> list[str]:
    return seen(view, "summary")


def search(view: Any, text: str) -> None:
    box = view.find_element(CSS, "input[type=search]")
    box.clear()
    box.send_keys(text)


def button(view: Any, text: str) -> Any:
    return next(found for found in view.find_elements(CSS, "button")
                if found.text == text)


def model(layers: int) -> dict[str, Any]:
    return {
        "params": {
            "embed": {"table": np.zeros((64, 32), np.float32)},
            **{f"layer_{i}": {
                "kernel": np.zeros((8, 16 + i), np.float32),
                "bias": np.zeros(4, np.float32),
            } for i in range(layers)},
        },
        "step": 7,
    }


def test_open_groups_by_module_largest_first(
    browser: Any, show: Any, tmp_path: Path
) -> None:
    holdfast.save(tmp_path / "c", model(3))
    show(holdfast.open(tmp_path / "c")._repr_html_())
    (view,) = views(browser)
    title = view.find_element(CSS, "p").text
    assert "8 leaves, 2468 parameters, 9.6 KiB" in title
    assert modules(view) == [
        "params 7 leaves, 2468 parameters, 9.6 KiB",
        "params.layer_2 2 leaves, 148 parameters, 592 B",
        "params.layer_1 2 leaves, 140 parameters, 560 B",
        "params.layer_0 2 leaves, 132 parameters, 528 B",
    ]
    # A module with a single leaf is shown as a row of its parent.
    assert rows(view) == ["kernel", "bias"] * 3 + ["embed.table", "step"]
    text = view.text
    assert "(8, 18)" in text and "float32" in text


def test_folding(browser: Any, show: Any, tmp_path: Path) -> None:
    holdfast.save(tmp_path / "c", model(2))
    show(holdfast.open(tmp_path / "c")._repr_html_())
    (view,) = views(browser)
    button(view, "fold all").click()
    assert rows(view) == ["step"]
    view.find_element(CSS, "summary").click()
    assert rows(view) == ["embed.table", "step"]
    button(view, "unfold all").click()
    assert len(rows(view)) == 6


def test_search_hides_all_else_and_gives_it_back(
    browser: Any, show: Any, tmp_path: Path
) -> None:
    holdfast.save(tmp_path / "c", model(12))
    pages = [holdfast.open(tmp_path / "c")._repr_html_() for _ in range(2)]
    show(*pages)
    first, second = views(browser)
    before = len(rows(second))
    search(first, "LAYER_11.b")
    assert rows(first) == ["bias"]
    assert [text.split()[0] for text in modules(first)] == [
        "params", "params.layer_11"]
    assert "1 of 26" in first.text
    assert len(rows(second)) == before  # each view has a search of its own
    search(first, "no such leaf")
    assert rows(first) == [] and "0 of 26" in first.text
    search(first, " ")
    assert len(rows(first)) == before


def test_large_ones_are_folded_and_whole(
    browser: Any, show: Any, tmp_path: Path
) -> None:
    state = {f"layer_{i}": {f"w{j}": np.float32([i]) for j in range(20)}
             for i in range(1000)}
    holdfast.save(tmp_path / "c", state)
    html = holdfast.open(tmp_path / "c")._repr_html_()
    assert len(html) < 3 << 20
    show(html)
    (view,) = views(browser)
    assert browser.execute_script(
        "return document.querySelectorAll('tbody>tr').length") == 20_000
    assert len(modules(view)) == 1000
    search(view, "layer_777.w13")
    assert rows(view) == ["w13"]


def test_names_are_texts(browser: Any, show: Any, tmp_path: Path) -> None:
    bad = ["<img src=x onerror=console.error(1)>", "</script><b>b", "a&lt;b",
           '"quoted"', "<!--"]
    state = {name: {"x": np.ones(2), "y": np.ones(2)} for name in bad}
    holdfast.save(tmp_path / "c", state)
    show(holdfast.open(tmp_path / "c")._repr_html_())
    (view,) = views(browser)
    assert sorted(text.split(" 2 leaves")[0] for text in modules(view)) == (
        sorted(bad))
    assert len(rows(view)) == 10


def test_without_scripts_all_can_be_unfolded(
    browser: Any, show: Any, tmp_path: Path
) -> None:
    """An untrusted notebook removes scripts, styles, ids and classes."""
    holdfast.save(tmp_path / "c", model(30))
    html = holdfast.open(tmp_path / "c")._repr_html_()
    html = re.sub(r"<(script|style)>.*?</\1>", "", html, flags=re.DOTALL)
    html = re.sub(r' (id|class|style)="[^"]*"', "", html)
    assert "<script" not in html
    show(html)
    view = browser.find_element(CSS, ".output")
    assert rows(view) == ["step"]
    view.find_element(CSS, "summary").click()
    assert rows(view) == ["embed.table", "step"]
    folded = view.find_elements(CSS, "details details>summary")
    assert len(folded) == 30
    folded[0].click()
    assert rows(view) == ["kernel", "bias", "embed.table", "step"]


def test_stats(browser: Any, show: Any, tmp_path: Path) -> None:
    state = model(2)
    state["params"]["layer_0"]["kernel"][0, :3] = [1.5, np.nan, np.inf]
    holdfast.save(tmp_path / "c", state)
    show(holdfast.stats(tmp_path / "c")._repr_html_())
    (view,) = views(browser)
    # Leaves that are not finite come first, though layer_1 is larger.
    assert "1 not finite" in view.find_element(CSS, "p").text
    assert modules(view)[1].startswith("params.layer_0 2 leaves")
    cells = view.find_element(CSS, "tr.bad").text
    assert cells.startswith("kernel float32 (8, 16)")
    assert cells.endswith(" 125 1 1")  # zeros, NaNs, infinities


def test_diff(browser: Any, show: Any, tmp_path: Path) -> None:
    state = model(2)
    holdfast.save(tmp_path / "a", state)
    state["params"]["layer_0"]["bias"][2] = 0.5
    del state["step"]
    holdfast.save(tmp_path / "b", state)
    show(holdfast.diff(tmp_path / "a", tmp_path / "b")._repr_html_())
    (view,) = views(browser)
    title = view.find_element(CSS, "p").text
    assert title.splitlines() == [
        "different",
        "6 leaves, 2320 parameters, 9.1 KiB, 2 different"]
    assert "1 different" in modules(view)[0]
    assert modules(view)[1].startswith("params.layer_0")
    bad = [row.text for row in view.find_elements(CSS, "tr.bad")]
    assert bad[0].startswith("bias values float32 (4,) float32 (4,) 1 of 4")
    assert bad[0].endswith("[2] 0.0 != 0.5")
    assert bad[1].startswith("step only in a")
    search(view, "only in a")
    assert rows(view) == ["step"]


def test_verify(browser: Any, show: Any, tmp_path: Path) -> None:
    state = {"params": {name: np.random.default_rng(7).random(4000)
                        for name in ("a", "b")}}
    holdfast.save(tmp_path / "c", state)
    sound = holdfast.verify(tmp_path / "c")._repr_html_()
    largest = max((tmp_path / "c").rglob("d/*"),
                  key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 8
    largest.write_bytes(content)
    report = holdfast.verify(tmp_path / "c")
    show(sound, report._repr_html_())
    good, bad = views(browser)
    assert "2 leaves checked, no damage" in good.text
    assert rows(good) == []
    assert "2 leaves checked, damaged" in bad.text
    assert len(rows(bad)) == len(report.damages) > 0
    assert report.damages[0].message in bad.text
