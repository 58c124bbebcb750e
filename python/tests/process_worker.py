"""One process of a `process_jobs.Job`: calls functions on request.

Arguments: its index, the number of processes, the coordinator's port, the file
descriptor for its answers, and the directory of the modules. Each request is a
line of JSON on standard input.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import sys
import time
import traceback
from typing import Any


def main() -> None:
    index, count, port, answers = map(int, sys.argv[1:5])
    sys.path[:0] = [sys.argv[5], os.path.dirname(__file__)]
    faulthandler.enable()
    import jax

    if count > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"localhost:{port}", count, index)
    assert jax.process_count() == count
    jax.devices()

    def answer(value: Any, error: str, seconds: float) -> None:
        outcome = {"value": value, "error": error, "seconds": seconds}
        os.write(answers, json.dumps(outcome).encode() + b"\n")

    answer(None, "", 0)
    for line in sys.stdin:
        request = json.loads(line)
        start = time.monotonic()
        value, error = None, ""
        try:
            module, name = request["function"].split(":")
            function = getattr(importlib.import_module(module), name)
            value = function(**request["arguments"])
        except BaseException as raised:
            error = f"{type(raised).__name__}: {raised}"
            print(traceback.format_exc(), file=sys.stderr, flush=True)
        answer(value, error, time.monotonic() - start)


if __name__ == "__main__":
    main()
