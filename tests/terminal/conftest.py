"""Runs `holdfast top` in a tmux terminal, whose screen tests compare.

    python -m pytest tests/terminal --cli build/dev/cli/holdfast

HOLDFAST_WRITE_GOLDEN=1 writes the screens of golden/.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).resolve().parent / "golden"
SECONDS_MAX = 20


@dataclasses.dataclass
class Top:
    """A `holdfast top` that runs in its own tmux server."""

    folder: Path
    socket: str

    def tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-L", self.socket, "-f", "/dev/null", *words],
            capture_output=True, text=True, check=True, timeout=30)
        return done.stdout

    def screen(self) -> str:
        return self.tmux("capture-pane", "-p", "-t", "top")

    def press(self, *keys: str) -> None:
        """Presses the keys with tmux's names; types other words as they are."""
        self.tmux("send-keys", "-t", "top", *keys)

    def wait(self, *texts: str, but: str = "") -> str:
        """Waits until the screen shows all of `texts` and not `but`; returns
        the screen."""
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            screen = self.screen()
            is_there = all(text in screen for text in texts)
            if is_there and not (but and but in screen):
                return screen
            assert time.monotonic() < deadline, f"want {texts} in\n{screen}"
            time.sleep(0.02)

    def settled(self, *texts: str) -> str:
        """Waits until everything is measured and the screen shows `texts`;
        returns the screen."""
        before = ""
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            assert time.monotonic() < deadline, before
            screen = self.wait(*texts)
            message = screen.split("\n")[-3]
            is_busy = re.search(
                r" (open|statistics|drift|diff|verify)( \d+%)?\s*$", message)
            if screen == before and not is_busy and "…  " not in screen:
                return screen
            before = screen

    def resize(self, columns: int, rows: int) -> None:
        self.tmux("resize-window", "-t", "top", "-x", str(columns), "-y",
                  str(rows))

    def kill(self, number: signal.Signals) -> None:
        shell = self.tmux("display", "-p", "-t", "top", "#{pane_pid}").strip()
        child = subprocess.run(["pgrep", "-P", shell], capture_output=True,
                               text=True, check=True)
        os.kill(int(child.stdout), number)

    def assert_restored(self) -> None:
        """Checks that the terminal is as it was before the command."""
        self.wait("after")
        asked = "#{alternate_on} #{cursor_flag} #{keypad_cursor_flag}"
        assert self.tmux("display", "-p", "-t", "top", asked).split() == [
            "0", "1", "0"]
        modes = [(self.folder / name).read_text()
                 for name in ("modes_before", "modes_after")]
        assert modes[0] == modes[1]

    def close(self) -> None:
        subprocess.run(["tmux", "-L", self.socket, "kill-server"], check=False,
                       capture_output=True)


Start = Callable[..., Top]


@pytest.fixture
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Start]:
    """Returns start(words, ...), which runs `holdfast top` with these words in
    a shell."""
    if shutil.which("tmux") is None:
        pytest.skip("no tmux (scripts/setup --browser)")
    cli = Path(request.config.getoption("--cli")).resolve()
    tops = []

    def started(words: str, *, columns: int = 80, rows: int = 24,
                folder: Path = tmp_path, environment: str = "") -> Top:
        top = Top(tmp_path, f"holdfast-{uuid.uuid4().hex[:12]}")
        tops.append(top)
        # Files get the terminal's modes, so that the screen shows only `top`.
        script = (f"stty -g >{tmp_path}/modes_before; "
                  f"LC_ALL=C.UTF-8 {environment} {cli} top {words}; "
                  f"echo ended $?; stty -g >{tmp_path}/modes_after; "
                  "echo after; exec sleep 600")
        top.tmux("new-session", "-d", "-s", "top", "-x", str(columns), "-y",
                 str(rows), "-c", str(folder), "sh", "-c", script)
        return top

    yield started
    for top in tops:
        top.close()


def compare(name: str, screen: str) -> None:
    """Compares the screen with the golden one, except for ages, which grow."""
    text = "\n".join(line.rstrip() for line in screen.split("\n"))
    text = re.sub(r"( +)(\d+)([sm])(?= [│|])",
                  lambda m: "0s".rjust(len(m[0])), text).rstrip() + "\n"
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("HOLDFAST_WRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), name
