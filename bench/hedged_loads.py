#!/usr/bin/env python3
"""Times loads from a server that stalls one in a hundred GETs for a minute.

usage: bench/hedged_loads.py BUILD_DIRECTORY [--mib N] [--loads N]

`holdfast digest` reads a checkpoint from a web server on this machine,
alternately without and with stalls. Prints the medians and 99th percentiles of
both, and the share of bytes that were received twice. Each load is its own
process, which does not know the usual response times yet.
"""

import argparse
import contextlib
import http.server
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "remote"))
import range_server  # noqa: E402

STALL_SECONDS = 60
numbers = random.Random(0)


class StallingHandler(range_server.Handler):
    """Delays one GET in a hundred by a minute, while `stalls` is true."""

    stalls = False

    def do_GET(self):  # noqa: N802
        if self.stalls and numbers.random() < 0.01:
            time.sleep(STALL_SECONDS)
            self.close_connection = True
            return
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            super().do_GET()


def make_checkpoint(build, folder, mib):
    lines = [f"w{i:03} float32 {i << 20} 262144" for i in range(mib)]
    (folder / "t.lines").write_text("\n".join(lines) + "\n", "utf-8")
    (folder / "t.data").write_bytes(os.urandom(mib << 20))
    subprocess.run(
        [build / "bench" / "holdfast_driver"], check=True, encoding="utf-8",
        input=f"tree {folder}/t.lines {folder}/t.data\n"
              f"save {folder}/c compression=none\n", stdout=subprocess.PIPE)


def load(build, url, folder):
    """Returns the seconds, the bytes received, and the bytes that were
    received twice because of hedges."""
    metrics = folder / "metrics.txt"
    begun = time.monotonic()
    subprocess.run(
        [build / "cli" / "holdfast", "digest", url], check=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, "HOLDFAST_METRICS": str(metrics)})
    seconds = time.monotonic() - begun
    text = metrics.read_text("utf-8")
    found = [int(re.search(rf"holdfast_{name}_total (\d+)", text)[1])
             for name in ("received_bytes", "hedge_bytes")]
    return seconds, *found


def percentile(values, part):
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--loads", type=int, default=100)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_checkpoint(arguments.build, folder, arguments.mib)
        StallingHandler.root = folder.resolve()
        server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), StallingHandler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/c"
        rounds = {False: [], True: []}
        for _ in range(arguments.loads):
            for stalls in (False, True):
                StallingHandler.stalls = stalls
                rounds[stalls].append(load(arguments.build, url, folder))
        print("| | median | p99 | bytes twice |\n|---|--:|--:|--:|")
        for stalls, what in ((False, "undisturbed"), (True, "1 % stalled")):
            seconds = [each[0] for each in rounds[stalls]]
            received = sum(each[1] for each in rounds[stalls])
            hedged = sum(each[2] for each in rounds[stalls])
            print(f"| {what} | {percentile(seconds, 0.5):.3f} s |"
                  f" {percentile(seconds, 0.99):.3f} s |"
                  f" {100 * hedged / received:.2f} % |")
        # A normal exit would wait for stalled handlers.
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    main()
