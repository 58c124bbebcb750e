"""Runs other libraries' checkpoint tests, with Orbax and with holdfast.

usage: run_clients.py [--python PYTHON] [--sources DIR] [CLIENT...]

Each client's tests run twice, in fresh processes: unchanged, with Orbax, and
under `python -m holdfast.as_orbax`. Every test must end in the same way in both
runs. PYTHON has the packages of tests/clients/requirements.txt. If a client's
package does not include its tests, they are expected in DIR/CLIENT, an unpacked
source distribution or a checkout. A client without tests is skipped, and the
output names it.

Exit status 1 when a test ended differently, or when nothing ran.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import os
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
PACKAGES = "packages"
OWN = "own"

Outcomes = dict[str, str]


@dataclasses.dataclass(frozen=True)
class Client:
    """A library, and where its tests are.

    Attributes:
        distribution: the name in the package index.
        tests: pytest's arguments, relative to the folder of the tests.
        where: PACKAGES if the tests are in the installed package, OWN if they
            are in this folder; else a description of what DIR/CLIENT must be.
        program: a file in DIR/CLIENT that the tests in this folder run.
        timeout_s: time limit of one run, in seconds.
    """

    distribution: str
    tests: tuple[str, ...]
    where: str = PACKAGES
    program: str = ""
    timeout_s: int = 1800


CLIENTS = {
    "flax": Client(
        "flax", ("tests/checkpoints_test.py",), "its source distribution"
    ),
    "keras": Client("keras", ("keras/src/callbacks/orbax_checkpoint_test.py",)),
    "scico": Client("scico", ("scico/test/flax/test_checkpoints.py",)),
    "brax": Client(
        "brax",
        (
            "brax/training/agents/ppo/checkpoint_test.py",
            "brax/training/agents/sac/checkpoint_test.py",
        ),
    ),
    "grain": Client("grain", ("test_grain.py",), OWN),
    "kauldron": Client(
        "kauldron",
        (
            "kauldron/checkpoints",
            "kauldron/contrib/evals/checkpointed_evaluator_test.py",
        ),
        "a checkout of google-research/kauldron",
    ),
    "gemma": Client(
        "gemma",
        (
            "gemma/diffusion/hackable_diffusion_adapter/hd/"
            "gemma_checkpointer_test.py",
        ),
        "a checkout of google-deepmind/gemma",
    ),
    "axlearn": Client(
        "axlearn",
        ("axlearn/common/checkpointer_orbax_test.py",),
        "a checkout of apple/axlearn",
    ),
    "tunix": Client(
        "google-tunix",
        (
            "tests/sft/checkpoint_options_test.py",
            "tests/sft/checkpoint_manager_test.py",
        ),
        "a checkout of google/tunix",
    ),
    "t5x": Client(
        "t5x",
        ("t5x/checkpoint_utils_test.py", "t5x/utils_test.py"),
        "a checkout of google-research/t5x",
    ),
    "maxtext": Client(
        "maxtext",
        (str(HERE / "test_maxtext.py"),),
        "a checkout of AI-Hypercomputer/maxtext",
        "src/maxtext/common/emergency_checkpointing.py",
    ),
}


def outcomes(report: pathlib.Path) -> Outcomes:
    """Returns {test name: outcome} from a JUnit report."""
    found: Outcomes = {}
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        tags = {child.tag for child in case}
        ends = [t for t in ("error", "failure", "skipped") if t in tags]
        name = f"{case.get('classname')}::{case.get('name')}"
        found[name] = ends[0] if ends else "passed"
    return found


def run(
    client: Client, where: pathlib.Path, command: list[str]
) -> tuple[Outcomes, str]:
    """Runs a client's tests.

    Args:
        client: the library.
        where: the folder that the paths of its tests are relative to.
        command: the Python that runs pytest, with options.

    Returns:
        The outcomes, and the last lines that the tests printed.
    """
    variables = {"JAX_PLATFORMS": "cpu", "KERAS_BACKEND": "jax"}
    paths = [str(where), os.environ.get("PYTHONPATH", "")]
    if client.where in (PACKAGES, OWN):
        del paths[0]
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.xml"
        options = ["-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        try:
            done = subprocess.run(
                [*command, "-m", "pytest", *options, *client.tests],
                cwd=where,
                env={**os.environ, **variables},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=client.timeout_s,
            )
        except subprocess.TimeoutExpired:
            return {}, f"took more than {client.timeout_s} s"
        tail = "\n".join(done.stdout.splitlines()[-15:])
        return (outcomes(report) if report.exists() else {}), tail


def summary(found: Outcomes) -> str:
    """Returns the counts of outcomes, such as "26 passed, 1 skipped"."""
    counts = collections.Counter(found.values())
    names = ("passed", "failure", "error", "skipped")
    return ", ".join(f"{counts[n]} {n}" for n in names if counts[n]) or "none"


def compare(name: str, where: pathlib.Path, python: str) -> bool:
    """Runs a client's tests with Orbax and with holdfast; prints differences.

    Returns:
        Whether tests ran and all ended alike.
    """
    client = CLIENTS[name]
    orbax, orbax_tail = run(client, where, [python])
    ours, our_tail = run(client, where, [python, "-m", "holdfast.as_orbax"])
    tests = orbax.keys() | ours.keys()
    different = sorted(t for t in tests if orbax.get(t) != ours.get(t))
    print(
        f"{name}: Orbax {summary(orbax)}; holdfast {summary(ours)};"
        f" {len(different)} different",
        flush=True,
    )
    for test in different:
        print(f"  {test}: {orbax.get(test)}, with holdfast {ours.get(test)}")
    if different:
        print(our_tail)
    has_passed = "passed" in orbax.values()
    if not has_passed:
        print(f"  nothing passed with Orbax:\n{orbax_tail}")
    return has_passed and not different


def folder_of(
    name: str, packages: pathlib.Path, sources: pathlib.Path
) -> pathlib.Path | None:
    """Returns the folder of a client's tests, or None if they are missing."""
    client = CLIENTS[name]
    if client.where == OWN:
        return HERE
    folder = packages if client.where == PACKAGES else sources / name
    needed = (*client.tests, client.program)
    is_there = all((folder / path).exists() for path in needed)
    return folder if is_there else None


def site_packages(python: str) -> pathlib.Path:
    """Returns the folder of the packages that `python` imports."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    done = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, check=True
    )
    return pathlib.Path(done.stdout.strip())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--sources", type=pathlib.Path, default=HERE)
    parser.add_argument("clients", nargs="*", choices=[[], *CLIENTS])
    options = parser.parse_args()
    packages = site_packages(options.python)
    results = []
    for name in options.clients or CLIENTS:
        folder = folder_of(name, packages, options.sources.resolve())
        if folder is None:
            print(
                f"{name}: skipped; {options.sources / name} is not"
                f" {CLIENTS[name].where}"
            )
        else:
            results.append(compare(name, folder, options.python))
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
