#!/usr/bin/env python3
"""Runs `holdfast prove-crash` on real programs.

usage: run_prove.py HOLDFAST

It must find the syncs that stock Orbax, torch, safetensors and numpy do not
make, and the syncs that a test leaves out of holdfast's saves (one by one with
--without-sync, all with durable=False). It must find nothing in holdfast's
saves, managers, overwrites, conversions, deltas and background saves. Prints
what is wrong; exit status 1 on any.
"""

import json
import os
import subprocess
import sys

BEFORE = """
import os
import numpy as np
import holdfast
root = os.environ["HOLDFAST_PROVE_ROOT"]
def tree(step):
    rng = np.random.default_rng(step)
    return {"w": rng.standard_normal((64, 64)), "step": np.asarray(step)}
"""
# Programs whose saves must be durable, and the checkpoints that exist at the
# end.
OURS = {
    "overwrite": (["."], """
for step in range(3):
    holdfast.save(f"{root}/last", tree(step), overwrite=True)
    holdfast.crash_mark(f"saved {step}")
"""),
    "background": (["0", "1", "2"], """
for step in range(3):
    holdfast.save(f"{root}/{step}", tree(step), background=True).result()
    holdfast.crash_mark(f"saved {step}")
"""),
    "delta": (["0", "1", "2"], """
holdfast.save(f"{root}/0", tree(0))
for step in (1, 2):
    holdfast.save(f"{root}/{step}", tree(step), base=f"{root}/{step - 1}")
    holdfast.crash_mark(f"saved {step}")
"""),
    "convert": (["0", "a.safetensors", "b.npz", "c"], """
holdfast.save(f"{root}/0", tree(0))
holdfast.crash_mark("saved")
for name in ("a.safetensors", "b.npz", "c"):
    holdfast.convert(f"{root}/0", f"{root}/{name}")
    holdfast.crash_mark(name)
"""),
    "pruned": (["2", "3"], """
import holdfast.orbax as ocp
options = ocp.CheckpointManagerOptions(max_to_keep=2)
with ocp.CheckpointManager(root, options=options) as manager:
    for step in range(4):
        manager.save(step, args=ocp.args.StandardSave(tree(step)))
    manager.wait_until_finished()
"""),
    "no marks": (["0", "1", "2"], """
for step in range(3):
    holdfast.save(f"{root}/{step}", tree(step))
"""),
}
PLANTED = """
for step in range(3):
    holdfast.save(f"{root}/{step}", tree(step), durable=False)
    holdfast.crash_mark(f"saved {step}")
"""
# (problem, path) of each sync that a library does not make.
PEERS = {
    "orbax": {("lost", "."), ("damaged", "STEP/default/_METADATA"),
              ("damaged", "STEP")},
    "torch": {("lost", "."), ("damaged", "STEP"), ("damaged", None)},
    "dcp": {("lost", "."), ("lost", "STEP"), ("damaged", "STEP/.metadata")},
    "safetensors": {("lost", "."), ("damaged", "STEP")},
    "numpy": {("lost", "."), ("damaged", "STEP"), ("damaged", None)},
}
# A glob of holdfast's syncs, and the problem without them.
SYNCS = {
    ".": ("lost", "."),
    "*/_METADATA": ("damaged", "STEP/_METADATA"),
    "*/_HOLDFAST_DIGESTS": ("damaged", "STEP/_HOLDFAST_DIGESTS"),
    "*/_CHECKPOINT_METADATA": ("damaged", "STEP/_CHECKPOINT_METADATA"),
    "*/manifest.ocdbt": ("damaged", "STEP/manifest.ocdbt"),
    "*/d": ("damaged", "STEP/d"),
}


class Prover:
    def __init__(self, holdfast):
        self.holdfast = holdfast
        self.failure_count = 0
        self.state_count = 0

    def may_trace(self):
        done = subprocess.run([self.holdfast, "prove-crash", "--", "true"],
                              stderr=subprocess.PIPE, text=True, check=False)
        return "does not let a program trace" not in done.stderr

    def prove(self, name, *words):
        done = subprocess.run(
            [self.holdfast, "prove-crash", "--json", *words],
            capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1):
            self.fail(name, done.stderr)
            return None
        program = json.loads(done.stdout)["programs"][0]
        self.state_count += program["state_count"]
        if done.returncode != bool(program["risks"]):
            self.fail(name, f"exit status {done.returncode}")
        return program

    def run(self, name, program, *options):
        return self.prove(name, *options, "--", sys.executable, "-c",
                          BEFORE + program)

    def fail(self, name, why):
        self.failure_count += 1
        print(f"FAILED {name}: {why}")

    def expect_none(self, name, program):
        if program is not None and program["risks"]:
            self.fail(name, json.dumps(program["risks"], indent=1))

    def expect(self, name, program, wanted):
        if program is None:
            return
        found = {(risk["problem"], sync["path"] if sync else None)
                 for risk in program["risks"]
                 for sync in (risk["missing"] or [None])}
        if missing := wanted - found:
            self.fail(name, f"not found: {missing}; found: {found}")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    prover = Prover(os.path.abspath(sys.argv[1]))
    if not prover.may_trace():
        print("0 states: this system lets no program trace another")
        return 0
    python = ("--python", sys.executable)
    for library, wanted in PEERS.items():
        prover.expect(library, prover.prove(
            library, *python, "--library", library), wanted)
    for library in ("holdfast", "holdfast-manager"):
        prover.expect_none(library, prover.prove(
            library, *python, "--library", library))
    for name, (checkpoints, program) in OURS.items():
        proof = prover.run(name, program)
        prover.expect_none(name, proof)
        if proof is not None and proof["checkpoints"] != checkpoints:
            prover.fail(name, f"judged {proof['checkpoints']}")
    prover.expect("convert", prover.run(
        "convert", OURS["convert"][1], "--without-sync", "*.safetensors"),
        {("damaged", "STEP")})
    prover.expect("durable=False", prover.run("durable=False", PLANTED),
                  {("damaged", "STEP"), ("damaged", "STEP/_METADATA")})
    for glob, wanted in SYNCS.items():
        program = prover.prove(glob, *python, "--library", "holdfast",
                               "--without-sync", glob)
        prover.expect(glob, program, {wanted})
        if program is not None and program["dropped_sync_count"] < 3:
            prover.fail(glob, "matched no sync")
    print(f"{prover.state_count} states, {prover.failure_count} failures")
    return int(prover.failure_count > 0)


if __name__ == "__main__":
    sys.exit(main())
