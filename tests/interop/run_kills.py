#!/usr/bin/env python3
"""Kills programs at random moments of a save, and checks what is left.

usage: run_kills.py [--kills N] [--seed S] [--ways WAY,...] [--dir SCRATCH]

A victim saves step after step into a root until it gets SIGKILL. It saves with
holdfast.save, with also="safetensors", as a view of a raw checkpoint elsewhere,
or with holdfast.orbax's PyTreeCheckpointer, AsyncCheckpointer or
CheckpointManager (max_to_keep). Then holdfast and stock Orbax must agree on the
newest step, which must be the last step whose save returned in the victim, or a
later one. Both must restore every bit of it. The next victim continues in the
same root. Prints what is wrong; exit status 1 on any.

Victims are forked from a process that has imported holdfast and no jax, so
that a kill costs milliseconds.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time

WAYS = ("save", "both", "view", "checkpointer", "async", "manager")
KEPT_STEPS = 3
ARRAY_COUNT = 24


def make_tree(step):
    import numpy as np

    rng = np.random.default_rng(step)
    tree = {
        f"w{i:02}": rng.standard_normal((1 + i, 700), dtype=np.float32)
        for i in range(ARRAY_COUNT)
    }
    tree["step"] = np.asarray(step)
    return tree


def differs(restored, step):
    """Returns the names of the leaves that are not what was saved."""
    import numpy as np

    want = make_tree(step)
    if set(restored) != set(want):
        return sorted(set(restored) ^ set(want))
    return [
        name for name, value in want.items()
        if np.asarray(restored[name]).dtype != value.dtype
        or not np.array_equal(restored[name], value)
    ]


# The victims' programs. Each has a function that saves a step, and a function
# that waits until all steps are durable.


def _open_saver(way, root):
    import holdfast
    import holdfast.orbax as ocp

    if way == "save":
        return lambda step, tree: holdfast.save(root / str(step), tree), None
    if way == "both":
        return lambda step, tree: holdfast.save(
            root / str(step), tree, also="safetensors"), None
    if way == "view":
        return lambda step, tree: _save_view(root, step, tree), None
    if way == "checkpointer":
        checkpointer = ocp.PyTreeCheckpointer()
        return lambda step, tree: checkpointer.save(root / str(step), tree), None
    if way == "async":
        checkpointer = ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler())
        return (
            lambda step, tree: checkpointer.save(root / str(step), tree),
            checkpointer.wait_until_finished,
        )
    manager = ocp.CheckpointManager(
        root, options=ocp.CheckpointManagerOptions(max_to_keep=KEPT_STEPS)
    )
    return (
        lambda step, tree: manager.save(step, args=ocp.args.PyTreeSave(tree)),
        manager.wait_until_finished,
    )


def sources_of(root):
    """Returns the directory of the checkpoints that a root's views refer to."""
    return root.with_name(root.name + ".sources")


def _save_view(root, step, tree):
    import holdfast

    source = sources_of(root) / str(step)
    holdfast.save(source, tree, compression=None, overwrite=True)
    holdfast.view(source, root / str(step))


def run_victim(way, root, progress):
    """Saves until killed; writes each durable step to the file `progress`."""
    first = max(committed_steps(root), default=0) + 1
    save, wait = _open_saver(way, root)
    log = os.open(progress, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for step in range(first, first + 100000):
        save(step, make_tree(step))
        if wait is not None and step % 3 == 0:
            wait()
        if wait is None or step % 3 == 0:
            os.write(log, f"{step}\n".encode())


class Server:
    """Forks victims, and returns how they end."""

    def __init__(self):
        ask_read, self._ask = os.pipe()
        self._answer, answer_write = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._ask)
            os.close(self._answer)
            self._serve(ask_read, answer_write)
            os._exit(0)
        os.close(ask_read)
        os.close(answer_write)
        self._answers = os.fdopen(self._answer)

    @staticmethod
    def _serve(ask, answer):
        import holdfast.orbax  # noqa: F401

        for line in os.fdopen(ask):
            request = json.loads(line)
            if "wait" in request:
                _, status = os.waitpid(request["wait"], 0)
                os.write(answer, f"{status}\n".encode())
                continue
            victim = os.fork()
            if victim == 0:
                try:
                    run_victim(request["way"], pathlib.Path(request["root"]),
                               request["progress"])
                except BaseException as error:  # noqa: BLE001
                    print(f"victim: {error!r}", file=sys.stderr)
                os._exit(1)
            os.write(answer, f"{victim}\n".encode())

    def _call(self, request):
        os.write(self._ask, (json.dumps(request) + "\n").encode())
        return int(self._answers.readline())

    def start(self, way, root, progress):
        return self._call({"way": way, "root": str(root),
                           "progress": str(progress)})

    def wait(self, pid):
        """Waits for a victim; returns the status from waitpid."""
        return self._call({"wait": pid})

    def close(self):
        os.close(self._ask)
        os.waitpid(self._pid, 0)


def committed_steps(root):
    import holdfast

    if not root.exists():
        return []
    try:
        return list(holdfast.steps(root))
    except FileNotFoundError:
        return []


def load_with_holdfast(root, step):
    import holdfast

    tree = holdfast.load(root / str(step))
    return tree.get("default", tree)


def load_with_orbax(ocp, way, root, step):
    if way != "manager":
        return ocp.PyTreeCheckpointer().restore(root / str(step))
    with ocp.CheckpointManager(
        root, options=ocp.CheckpointManagerOptions(read_only=True)
    ) as manager:
        return manager.restore(step, args=ocp.args.PyTreeRestore())


def check_root(ocp, way, root, last_told):
    """Returns the problems with the root, as strings."""
    ours = committed_steps(root)
    theirs = sorted(ocp.utils.checkpoint_steps(root)) if root.exists() else []
    problems = []
    if sorted(ours) != theirs:
        problems.append(f"holdfast sees steps {ours}, Orbax {theirs}")
    newest = max(ours, default=0)
    if newest < last_told:
        problems.append(f"step {last_told} was safe, the newest is {newest}")
    for step in sorted(ours)[-KEPT_STEPS:]:
        wrong = differs(load_with_holdfast(root, step), step)
        problems += [f"step {step} in holdfast: {name}" for name in wrong]
    if newest:
        wrong = differs(load_with_orbax(ocp, way, root, newest), newest)
        problems += [f"step {newest} in Orbax: {name}" for name in wrong]
    return problems


def last_told_step(progress):
    lines = progress.read_text().split() if progress.exists() else []
    return int(lines[-1]) if lines else 0


def kill_once(server, ocp, way, scratch, delay):
    """Kills a victim that saves in one way; returns the problems as strings."""
    root, progress = scratch / way, scratch / f"{way}.progress"
    root.mkdir(exist_ok=True)
    told_before = last_told_step(progress)
    victim = server.start(way, root, progress)
    time.sleep(delay)  # the random moment itself
    os.kill(victim, signal.SIGKILL)
    status = server.wait(victim)
    if not os.WIFSIGNALED(status):
        return [f"the victim ended by itself, status {status}"]
    told = last_told_step(progress)
    problems = check_root(ocp, way, root, told)
    if told < told_before:
        problems.append(f"the run went back from {told_before} to {told}")
    # Removes older steps: only the newest are checked again.
    if way != "manager":
        for step in sorted(committed_steps(root))[:-KEPT_STEPS]:
            shutil.rmtree(root / str(step))
            shutil.rmtree(sources_of(root) / str(step), ignore_errors=True)
    return problems


def available_ways(wanted):
    import holdfast.orbax as ocp

    has_all = hasattr(ocp, "AsyncCheckpointer")
    return [way for way in wanted
            if has_all or way not in ("async", "manager")]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--dir", help="where to save; default: a new folder")
    arguments = parser.parse_args()
    server = Server()  # before anything that starts threads
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import orbax.checkpoint as ocp

    ways = available_ways(arguments.ways.split(","))
    rng = random.Random(arguments.seed)
    failed = 0
    with tempfile.TemporaryDirectory(dir=arguments.dir) as directory:
        scratch = pathlib.Path(directory)
        for number in range(arguments.kills):
            way = ways[number % len(ways)]
            delay = rng.uniform(0, 0.6)
            problems = kill_once(server, ocp, way, scratch, delay)
            for problem in problems:
                print(f"kill {number} ({way}, after {delay:.4f} s): {problem}")
            failed += bool(problems)
        newest = {way: max(committed_steps(scratch / way), default=0)
                  for way in ways}
    server.close()
    print(f"{arguments.kills} kills, {failed} with problems; newest steps "
          + ", ".join(f"{way} {step}" for way, step in newest.items()))
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
