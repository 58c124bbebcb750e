"""Compares two builds of holdfast on a save, a load and a read of one row.

Each round runs both drivers, in alternating order, in processes that stay
alive. The results are the median of the rounds' ratios, and the ratio of the
fastest rounds. Caches are warm, saves include their syncs, and checksums are
verified.

usage: versions.py OLD_DRIVER NEW_DRIVER TREE SCALE ROUNDS COMPRESSION...
  drivers: build/*/bench/holdfast_driver of the two builds; TREE: llm, wide,
  small (trees.py). With --count before them, counts instructions under
  callgrind instead of seconds, in one round.
"""

import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

import trees

_CALLGRIND = ["valgrind", "--tool=callgrind",
              "--callgrind-out-file=/dev/null"]


class Driver:
    """A holdfast_driver that has loaded the tree."""

    def __init__(self, path: str, tree: str) -> None:
        self._process = subprocess.Popen(
            [path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.seconds(tree)

    def seconds(self, command: str) -> float:
        """Runs one command; raises RuntimeError with the driver's message."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().split()
        if not answer or answer[0] != "ok":
            raise RuntimeError(f"{command}: {' '.join(answer)}")
        return float(answer[1])


def instructions(path: str, commands: list[str]) -> int:
    """Returns how many instructions a driver executes to start and to run the
    commands."""
    run = subprocess.run(
        [*_CALLGRIND, path], input="\n".join(commands) + "\n",
        capture_output=True, text=True, check=True)
    if run.stdout.count("ok") != len(commands):
        raise RuntimeError(run.stdout)
    return int(run.stderr.split("Collected :")[1].split()[0])


def count(paths: list[str], tree: str, root: pathlib.Path, row: str,
          compressions: list[str]) -> None:
    bases = [instructions(path, [tree]) for path in paths]
    for compression in compressions:
        counts = []
        for i, path in enumerate(paths):
            place = root / f"{i}-{compression}"
            save = instructions(
                path, [tree, f"save {place} compression={compression}"])
            load = instructions(path, [tree, f"load {place}"])
            part = instructions(path, [tree, f"slice {place} {row}"])
            counts.append([n - bases[i] for n in (save, load, part)])
        for name, old, new in zip(("save", "load", "slice"), *counts,
                                  strict=True):
            print(f"{compression:5} {name:5} {new / old:.3f}  {old} {new}")


def measure(paths: list[str], tree: str, root: pathlib.Path, row: str,
            rounds: int, compressions: list[str]) -> None:
    drivers = [Driver(path, tree) for path in paths]
    for compression in compressions:
        times: dict[str, list[list[float]]] = {}
        for number in range(rounds + 1):
            order = [0, 1] if number % 2 == 0 else [1, 0]
            for command in ("save {} compression=" + compression, "load {}",
                            "slice {} " + row):
                taken = times.setdefault(command.split()[0], [[], []])
                for i in order:
                    place = root / f"{i}-{compression}"
                    if command.startswith("save"):
                        shutil.rmtree(place, ignore_errors=True)
                    taken[i].append(drivers[i].seconds(command.format(place)))
        for name, (old, new) in times.items():
            ratios = [b / a for a, b in zip(old[1:], new[1:], strict=True)]
            print(f"{compression:5} {name:5} median of ratios "
                  f"{statistics.median(ratios):.3f}, of the fastest "
                  f"{min(new[1:]) / min(old[1:]):.3f}; medians "
                  f"{statistics.median(old[1:]):.4f} "
                  f"{statistics.median(new[1:]):.4f} s")


def main() -> None:
    arguments = sys.argv[1:]
    counts = arguments[:1] == ["--count"]
    old, new, kind, scale, rounds, *compressions = arguments[counts:]
    tree = trees.TREES[kind](float(scale))
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        trees.write_for_driver(tree, root / "lines", root / "data")
        command = f"tree {root / 'lines'} {root / 'data'}"
        row = " ".join(str(part) for part in trees.slice_of(tree))
        if counts:
            count([old, new], command, root, row, compressions)
        else:
            measure([old, new], command, root, row, int(rounds), compressions)


if __name__ == "__main__":
    main()
