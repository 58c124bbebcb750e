"""Long-lived readers: followers of a run, and `serve`."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import urllib.request
from typing import Any

import numpy as np
from calls import Failure, judge_class
from operations import Operation, Words, chosen, operation, spelled
from play import Skip, World
from trees import FOLLOWED, tree

import holdfast


@operation
class Follow(Operation):
    """Polls the follower of a root, which must then have the newest step."""

    name = "follow"
    weight = 1.5

    def draw(self, draw: random.Random, world: World) -> Words | None:
        roots = [root for root in world.model.roots() if root]
        if not roots:
            return None
        return {"op": self.name, "root": draw.choice(roots)}

    def run(self, world: World, words: Words) -> list[str]:
        model, root = world.model, words["root"]
        steps = model.steps(root)
        if not steps or model.debris:
            raise Skip
        newest, saved = list(steps.items())[-1]
        if saved.item or saved.kind == "foreign":
            raise Skip
        if root not in world.followers:
            memory = np.zeros_like(tree(0)[FOLLOWED])
            path = world.path(root)
            made = holdfast.Follower(path, {FOLLOWED: memory})
            world.followers[root] = (made, memory)
        follower, memory = world.followers[root]
        before = memory.tobytes()
        want = tree(saved.value)[FOLLOWED].tobytes()
        sound = model.is_sound(f"{root}/{newest}")
        try:
            follower.poll()
        except Exception as error:  # judged by its class
            judge_class(error)
            world.count(self.name, "refused")
            if sound:
                text = f"{root}/{newest}: {type(error).__name__}: {error}"
                raise Failure("refused", self.name, text) from error
            if memory.tobytes() != before:
                raise Failure(
                    "wrong", self.name, "memory changed, and poll failed"
                ) from error
            return []
        world.count(self.name, "done")
        allowed = [want] if sound else [before, want]
        if not sound:
            allowed += [
                tree(s.value)[FOLLOWED].tobytes() for s in steps.values()
            ]
        is_stranger = not saved.is_checked and not sound
        if memory.tobytes() not in allowed and not is_stranger:
            kind = "stale" if memory.tobytes() == before else "wrong"
            text = f"memory is not as step {newest} of {root}"
            raise Failure(kind, self.name, text)
        return []


@operation
class Serve(Operation):
    """Reads the virtual safetensors files of `holdfast serve`, and checks the
    elements."""

    name = "serve"
    weight = 0.3

    def draw(self, draw: random.Random, world: World) -> Words | None:
        place = chosen(draw, world, lambda saved: not saved.item)
        if place is None:
            return None
        return {"op": self.name, "at": spelled(draw, world, place)}

    def run(self, world: World, words: Words) -> list[str]:
        place = world.meant(words["at"])
        saved = world.model.places.get(place)
        if saved is None or saved.item:
            raise Skip
        sound = world.model.is_sound(place)
        pid, pipe = _start(world.spelled(words["at"]))
        try:
            got = _fetch(pipe)
            world.count(self.name, "done")
        except Exception as error:  # from urllib, JSON or holdfast
            world.count(self.name, "refused")
            if sound:
                text = f"{place}: {type(error).__name__}: {error}"
                raise Failure("lost", "by serve", text) from error
            return []
        finally:
            os.close(pipe)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        want = tree(saved.value)[FOLLOWED].tobytes()
        if got != want and (saved.is_checked or sound):
            raise Failure("wrong", "by serve", f"{place}: {FOLLOWED}")
        return []


def _start(path: str) -> tuple[int, int]:
    """Starts a server; returns its process id and a pipe with its output."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(write, 1)
            os.dup2(write, 2)
            # Runs this Python: holdfast may not be installed for the one in
            # PATH.
            os.execv(
                sys.executable,
                [sys.executable, "-c", _SERVE, json.dumps(path)],
            )
        finally:
            os._exit(3)
    os.close(write)
    return pid, read


_SERVE = """
import json, sys
from _holdfast_command import main
sys.argv = ["holdfast", "serve", json.loads(sys.argv[1]), "--port", "0"]
sys.exit(main())
"""


def _fetch(pipe: int) -> bytes:
    text = ""
    while "http://" not in text or not text.endswith("\n"):
        if not select.select([pipe], [], [], 30)[0]:
            raise TimeoutError(f"the server said nothing but {text!r}")
        piece = os.read(pipe, 4096).decode(errors="replace")
        if not piece:
            raise ValueError(f"the server ended: {text!r}")
        text += piece
    address = text[text.index("http://") :].split()[0].rstrip("/")
    name = f"{address}/as/safetensors/model.safetensors"
    with urllib.request.urlopen(name, timeout=30) as answer:
        content = answer.read()
    size = int.from_bytes(content[:8], "little")
    header: dict[str, Any] = json.loads(content[8 : 8 + size])
    begin, end = header[FOLLOWED]["data_offsets"]
    return content[8 + size + begin : 8 + size + end]
