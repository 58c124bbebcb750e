"""holdfast top: what it shows at three sizes, and what keys do."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import GOLDEN, ROOT, Start, Top, compare

import holdfast
import holdfast.orbax as ocp

SIZES = [(80, 24), (120, 40), (200, 60)]
HOSTILE = "\x1b[31mred\x1b]0;title\x07"


def make_tree(step: int) -> dict[str, Any]:
    layers: dict[str, Any] = {
        f"{i}": {
            "attn": {
                key: np.linspace(-1, 1 + i, 4096, dtype=np.float32).reshape(
                    64, 64) + np.float32(step / 1000)
                for key in "qkv"},
            "mlp": np.full((64, 256), 0.5, np.float16),
        } for i in range(3)}
    if step == 300:
        layers["1"]["attn"]["q"][0, 0] = np.nan
    return {"params": {"layers": layers, "bias": np.zeros(256, np.float32)},
            HOSTILE: np.arange(3), "名前\u202e": np.arange(4), "step": step}


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with `run`, a root of three steps with metrics."""
    folder = tmp_path_factory.mktemp("runs")
    with ocp.CheckpointManager(folder / "run") as manager:
        for step in (100, 200, 300):
            manager.save(step, args=ocp.args.StandardSave(make_tree(step)),
                         metrics={"loss": 300 / step, "accuracy": 0.5})
    return folder


def open_newest(start: Start, runs: Path, size: tuple[int, int]) -> Top:
    top = start("run", columns=size[0], rows=size[1], folder=runs)
    top.settled("step 300", "params")
    return top


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_screens(start: Start, runs: Path, size: tuple[int, int]) -> None:
    top = open_newest(start, runs, size)
    name = f"{size[0]}x{size[1]}"
    compare(f"{name}_open", top.settled("NORM"))
    top.press("/", "1.attn.q", "Enter")
    compare(f"{name}_tree", top.settled("▾ attn"))
    top.press("Enter")
    compare(f"{name}_tensor", top.settled("by sign and power", "nan"))
    top.press("d")
    compare(f"{name}_diff", top.settled("leaves differ"))
    top.press("?")
    compare(f"{name}_help", top.wait("arrows"))
    top.press("q")
    top.wait("ended 0")
    top.assert_restored()


def test_the_manual_shows_what_it_looks_like() -> None:
    manual = (ROOT / "doc" / "see.md").read_text(encoding="utf-8")
    assert (GOLDEN / "80x24_tree.txt").read_text(encoding="utf-8") in manual


def test_keeps_its_statistics(start: Start, runs: Path,
                              tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    for _ in range(2):
        top = start(f"--cache {cache} run", folder=runs)
        compare("80x24_open", top.settled("NORM", "7.5%"))
        top.press("q")
        top.wait("ended 0")
        top.close()
        assert cache.read_bytes().startswith(b"holdfast-stats 1 ")
    cache.write_bytes(cache.read_bytes()[:100])
    top = start(f"--cache {cache} run", folder=runs)
    top.wait("left out")


def test_walks_verifies_and_refreshes(start: Start, runs: Path) -> None:
    top = open_newest(start, runs, (80, 24))
    top.press("Up")
    top.settled("step 200")
    top.press("Tab", "Down", "Down", "Down")
    top.press("v")
    top.wait("verified: 16 chunks as saved")
    top.press("r")
    top.settled("step 200", "NORM")
    top.press("Tab", "k", "k", "m", "G", "d")
    top.wait("differ from 100")
    top.press("Escape", "q")
    top.wait("ended 0")


def test_resizes(start: Start, runs: Path) -> None:
    top = open_newest(start, runs, (80, 24))
    top.resize(200, 60)
    top.wait("TYPE")
    top.resize(30, 5)
    top.wait("want 40 columns")
    top.resize(80, 24)
    compare("80x24_open", top.settled("NORM"))


def test_names_are_no_commands(start: Start, runs: Path) -> None:
    top = open_newest(start, runs, (200, 60))
    screen = top.wait(r"\x1b[31mred\x1b]0;title\x07", r"名前\u{202e}")
    assert "\u202e" not in screen
    title = top.tmux("display", "-p", "-t", "top", "#{pane_title}")
    assert title.strip() != "title"


@pytest.mark.parametrize("number", [
    signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGSEGV])
def test_signals_restore_the_terminal(start: Start, runs: Path,
                                      number: signal.Signals) -> None:
    top = open_newest(start, runs, (80, 24))
    top.kill(number)
    top.wait(f"ended {128 + number}")
    top.assert_restored()


def test_follows_a_job(start: Start, tmp_path: Path) -> None:
    run = tmp_path / "run"
    holdfast.save(run / "1", make_tree(1))
    top = start("--watch run")
    top.wait("step 1")
    holdfast.save(run / "2", make_tree(2))
    top.wait("step 2")
    unfinished = run / "3.orbax-checkpoint-tmp"
    unfinished.mkdir()
    top.wait("-tmp")
    top.press("Down")
    top.wait("3.orbax-checkpoint-tmp")
    unfinished.rmdir()
    holdfast.save(run / "3", make_tree(3))
    top.wait("step 3")
    top.press("q")
    top.wait("ended 0")


def test_without_colours_and_utf8(start: Start, runs: Path) -> None:
    top = start("run", folder=runs, environment="LC_ALL=C NO_COLOR=1")
    compare("80x24_ascii", top.settled("+ params"))
    colours = top.tmux("capture-pane", "-p", "-e", "-t", "top")
    assert "\x1b[3" not in colours.replace("\x1b[39m", "")


@pytest.mark.parametrize(("environment", "why"), [
    ("TERM=dumb", "TERM is 'dumb'"),
    ("TERM=", "TERM is ''"),
    ("TERM=no-such-terminal", "TERM is 'no-such-terminal'"),
    ("LD_LIBRARY_PATH=$PWD/broken", "Debian: libncursesw6"),
])
def test_says_why_not(start: Start, runs: Path, environment: str,
                      why: str) -> None:
    broken = runs / "broken"
    broken.mkdir(exist_ok=True)
    (broken / "libncursesw.so.6").write_text("no library")
    top = start("run", folder=runs, environment=environment, columns=200)
    screen = top.wait("ended 3")
    assert why in screen.replace("\n", " ")
    top.assert_restored()


def test_wants_a_terminal(request: pytest.FixtureRequest, runs: Path) -> None:
    done = subprocess.run(
        [request.config.getoption("--cli"), "top", "run"], cwd=runs,
        capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL)
    assert done.returncode == 3
    assert "top wants a terminal" in done.stderr
