#!/usr/bin/env python3
"""Checks that `holdfast verify` prints the same on several ranks as on one.

usage: verify_test.py HOLDFAST TARBALL LAUNCHER...

A checkpoint of TARBALL (tests/golden/corpus) is converted to many chunks, then
damaged. LAUNCHER is the command that starts the ranks (tests/mpi/run.sh).
"""

import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile

CASE = "open/sharded_mesh4x2_zarr2"
TIMES = ("total_seconds",)


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          timeout=100)
    return done


def report(command):
    """Returns the exit status and the JSON document that the command prints,
    without times."""
    done = run(command)
    document = json.loads(done.stdout)  # fails when two ranks print
    for field in TIMES:
        del document[field]
    return done.returncode, document


def damage(path):
    """Changes bytes in the middle of each data file; returns the number of
    changed files."""
    count = 0
    for file in sorted((path / "d").iterdir()):
        content = bytearray(file.read_bytes())
        for at in range(len(content) // 3, len(content), 97):
            content[at] ^= 0x55
        file.write_bytes(content)
        count += 1
    return count


def main():
    holdfast, tarball, *launcher = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        with tarfile.open(tarball) as tar:
            tar.extractall(scratch, [
                member for member in tar.getmembers()
                if member.name.startswith(CASE + "/")])
        target = scratch / "cut"
        made = run([holdfast, "convert", "--chunk-bytes=64",
                    scratch / CASE / "ckpt", target])
        assert made.returncode == 0, made.stderr
        verify = [holdfast, "verify", "--json", str(target)]
        alone = report(verify)
        assert alone[0] == 0 and alone[1]["chunk_count"] > 20, alone
        together = report([*launcher, *verify])
        assert together == alone, (together, alone)
        # Only one rank prints the summary, which is one line.
        text = run([*launcher, holdfast, "verify", str(target)])
        assert text.stdout.count("\n") == 1, text.stdout

        assert damage(target) > 0
        alone = report(verify)
        together = report([*launcher, *verify])
        assert alone[0] == 1 and together[0] != 0, (alone[0], together[0])
        assert len(alone[1]["damages"]) > 1, alone
        assert together[1] == alone[1], (together, alone)

        lost = run([*launcher, holdfast, "verify", str(scratch / "lost")])
        assert lost.returncode != 0
        assert lost.stderr.count("holdfast: ") == 1, lost.stderr
    print("equal")


if __name__ == "__main__":
    main()
