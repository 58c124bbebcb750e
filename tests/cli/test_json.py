"""Tests what `--json` prints against the schemas in doc/json, on checkpoints of
the corpus.

    python -m pytest tests/cli --cli build/dev/cli/holdfast
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tarfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from referencing import Registry, Resource

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = {
    path.stem: json.loads(path.read_text("utf-8"))
    for path in sorted((ROOT / "doc/json").glob("*.json"))
}
REGISTRY: Registry[Any] = Registry().with_resources(
    (f"{name}.json", Resource.from_contents(schema))
    for name, schema in SCHEMAS.items()
)
# Places of the runs below: cases of the corpus.
CASES = {
    "bare": "root_bare_array",
    "bytes": "legacy_053_aggregate_rich",
    "files": "model_zarr2_dirs",
    "mixed": "leaves_mixed_zarr2_ocdbt",
    "model": "model_zarr2_ocdbt",
    "prng": "prng_typed_zarr2_ocdbt",
    "root": "mgr_best_dict",
    "running": "mgr_with_tmp_open",
    "sharded": "sharded_mesh8",
}
# Exit status, schema if it is not the verb's, and words. A later run may use
# what an earlier one has written. Together they show every member of every
# schema.
RUNS = [
    (0, "", "ls {mixed}"),
    (0, "", "ls {prng}"),
    (1, "", "ls {damaged}"),
    (0, "", "tree {mixed}"),
    (0, "", "tree {mixed} --depth 1"),
    (0, "", "tree {bare}"),
    (0, "", "info {root} --step 10"),
    (0, "", "cat {mixed} arr.a"),
    (0, "", "cat {mixed} np.c64"),
    (0, "", "cat {mixed} str.unicode"),
    (0, "", "cat {bytes} bytes"),
    (0, "", "digest {mixed}"),
    (0, "", "digest {prng}"),
    (1, "", "digest {damaged}"),
    (0, "", "verify {model}"),
    (1, "", "verify {damaged}"),
    (0, "", "verify {root} --all"),
    (0, "", "steps {root}"),
    (0, "", "steps {running}"),
    (0, "", "log {root} --moved"),
    (0, "", "bisect {root} --bad-if 'max(state.w) > 1'"),
    (0, "", "du {root}"),
    (0, "", "plan {sharded}"),
    (2, "", "plan {sharded} --mesh x=5 --spec x"),
    (0, "", "convert {model} {out}/a.safetensors --map 'opt/0=moment'"),
    (0, "convert", "reshard {sharded} {out}/resharded rep --mesh x=2 --spec x"),
    (0, "", "view {out}/a.safetensors {out}/view"),
    (0, "", "view {model} {out}/copies"),
    (0, "convert", "materialize {out}/view {out}/whole"),
    (1, "", "diff {model} {out}/a.safetensors"),
    (1, "", "diff {root}/10 {root}/20"),
    (1, "", "diff {files} {damaged}"),
    (0, "", "stats {mixed}"),
    (1, "", "stats {damaged}"),
    (0, "", "report {model} --output {out}/report.html"),
    (0, "", "merge {model} {model} {out}/merged --average --take-first"),
    (1, "", "rescue {damaged} {out}/rescued"),
    (0, "", "cp {model} {out}/copy"),
    (0, "", "recipes"),
    (3, "", "doctor http://127.0.0.1:1/x"),
    (0, "", "watch --once {running}"),
    (1, "", "prove-crash --check 'test -d {{root}}/a' -- mkdir {{root}}/a"),
    (0, "", "goodput --duration 1d"),
    (0, "", "prune {root} --keep-latest 1"),
    (0, "", "prune {root} --keep-latest 2 --yes"),
    (0, "", "prune {root} --undelete 10"),
    (0, "", "prune {root} --empty-trash"),
]
# Parts of common.json that other objects extend, and therefore close.
EXTENDED = {"totals", "type", "step", "verification"}
Answers = dict[str, list[Any]]


def with_recording(seen: set[tuple[int, str]]) -> Any:
    """Returns a class of validators that add each member they see to `seen`."""
    base = jsonschema.Draft202012Validator

    def properties(validator: Any, wanted: Any, instance: Any,
                   schema: Any) -> Iterator[Any]:
        if isinstance(instance, dict):
            seen.update((id(wanted), name) for name in wanted
                        if name in instance)
        yield from base.VALIDATORS["properties"](validator, wanted, instance,
                                                 schema)

    return jsonschema.validators.extend(base, {"properties": properties})


def objects_of(schema: Any) -> Iterator[dict[str, Any]]:
    """Yields every object inside a schema."""
    if isinstance(schema, list):
        for one in schema:
            yield from objects_of(one)
    if isinstance(schema, dict):
        yield schema
        for one in schema.values():
            yield from objects_of(one)


def damage(checkpoint: Path) -> None:
    """Makes one array unreadable, and cuts a chunk of another."""
    (checkpoint / "opt.0/.zarray").write_text("{")
    (checkpoint / "opt.1/0").write_bytes(b"cut")


def add_live_save(directory: Path) -> None:
    """Adds the report of a running save to its directory."""
    report = {
        "rank": 0, "rank_count": 1, "host": socket.gethostname(),
        "pid": os.getpid(), "phase": "write", "phase_seconds": 1.0,
        "total_seconds": 2.0, "done_bytes": 1, "total_bytes": 2,
        "bytes_per_second": 1.0, "written_ns": time.time_ns(),
        "renewal_seconds": 1,
    }
    name = ".live-0.holdfast-tmp.0000000000000000"
    (directory / name).write_text(json.dumps(report))


@pytest.fixture
def cli(request: pytest.FixtureRequest) -> str:
    """Returns the path of the holdfast command."""
    return str(Path(request.config.getoption("--cli")).resolve())


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    """Returns the words between braces in RUNS."""
    wanted = tuple(f"open/{case}/" for case in CASES.values())
    with tarfile.open(ROOT / "tests/golden/corpus/open.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data", members=[
            member for member in archive if member.name.startswith(wanted)])
    paths = {name: tmp_path / "open" / case / "ckpt"
             for name, case in CASES.items()}
    paths["damaged"] = tmp_path / "damaged"
    shutil.copytree(paths["files"], paths["damaged"])
    damage(paths["damaged"])
    add_live_save(paths["running"] / "st_3.orbax-checkpoint-tmp")
    (paths["root"] / "best").mkdir()  # which prune leaves alone
    paths["out"] = tmp_path / "out"
    paths["out"].mkdir()
    return {name: str(path) for name, path in paths.items()}


@pytest.fixture
def answers(cli: str, places: dict[str, str], tmp_path: Path) -> Answers:
    """Returns what the runs print, by schema."""
    found: Answers = defaultdict(list)
    for status, schema, text in RUNS:
        verb, *words = shlex.split(text.format(**places))
        done = subprocess.run([cli, verb, "--json", *words], timeout=120,
                              capture_output=True, text=True, check=False)
        # No schema is that of a string, so that an unexpected status fails.
        found[schema or verb].append(
            json.loads(done.stdout) if done.returncode == status
            else f"{text}: {done.returncode}: {done.stderr}")
    done = subprocess.run([cli, "ls", "--json", "/nowhere"], check=False,
                          capture_output=True, text=True)
    found["error"].append(json.loads(done.stderr))
    with subprocess.Popen([cli, "serve", "--json", "--port", "0"],
                          stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        found["serve"].append(json.loads(server.stdout.readline()))
        server.terminate()
    (tmp_path / "target.py").write_text("def tree():\n    return {'a': 1}\n")
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "check", "--json", places["model"],
         "--target", "target:tree"],
        capture_output=True, text=True, check=False, cwd=tmp_path)
    found["check"].append(json.loads(done.stdout))
    return found


def test_answers_fit_their_schemas(answers: Answers) -> None:
    """Every answer fits, and some answer has each member of each schema."""
    seen: set[tuple[int, str]] = set()
    kind = with_recording(seen)
    for name, given in answers.items():
        for answer in given:
            kind(SCHEMAS[name], registry=REGISTRY).validate(answer)
    missing = [
        f"{name}: {member}"
        for name, schema in SCHEMAS.items()
        for each in objects_of(schema)
        for member in each.get("properties", ())
        if (id(each["properties"]), member) not in seen
    ]
    assert not missing


def test_schemas_are_closed() -> None:
    """No object may have members that its schema does not name."""
    parts = SCHEMAS["common"]["$defs"]
    extended = [parts[name] for name in EXTENDED]
    for name, schema in SCHEMAS.items():
        jsonschema.Draft202012Validator.check_schema(schema)
        for each in objects_of(schema):
            if each.get("type") != "object" or each in extended:
                continue
            is_extension = each.get("$ref", "").split("#")[-1] in EXTENDED
            closing = "unevaluated" if is_extension else "additional"
            assert f"{closing}Properties" in each, f"{name}: {each}"
            assert set(each.get("required", ())) <= set(each["properties"]
                                                        if "properties" in each
                                                        else ())


def test_each_verb_has_a_schema(cli: str) -> None:
    """Each verb that takes --json has a schema or shares one, and the page
    links to each schema."""
    page = (ROOT / "doc/cli.md").read_text("utf-8")
    assert [name for name in SCHEMAS if f"(json/{name}.json)" not in page] == []
    table = json.loads((ROOT / "tools/options.json").read_text("utf-8"))
    shared = {"reshard", "materialize"}  # convert's
    screens = {"top"}  # refuses everything but a terminal
    for verb in {each["name"] for each in table["verbs"]} - shared - screens:
        shown = subprocess.run([cli, verb, "--help"], check=True,
                               capture_output=True, text=True).stdout
        assert ("--json" in shown) == (verb in SCHEMAS), verb
