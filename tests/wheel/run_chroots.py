#!/usr/bin/env python3
"""Installs the portable wheels on bare systems, older and newer than this one.

usage: run_chroots.py WHEELS [--static HOLDFAST] [--systems NAME,...]
                       [--chroots DIR]

Each system is a minimal installation with its own Python, made by debootstrap
in --chroots (default: build/chroots; kept for the next time). There pip takes
one of the wheels in the folder WHEELS from an index that this program serves
(PyPI has another package of that name), and numpy from PyPI; then the command,
a save and a load, and the same on s3:// (moto) must work. A Python that is too
old must be refused in words, which pip finds at the sdist.
--static names the file of scripts/static, which must run on each system and in
an empty folder.

Needs root, debootstrap and moto (tests/remote/requirements.txt). Without
Ubuntu's keyring, of which Debian has no package, its signatures go unchecked:
these systems are only for the test.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import http.server
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "remote"))

DEBIAN = "http://deb.debian.org/debian"
UBUNTU = "http://archive.ubuntu.com/ubuntu"
UBUNTU_KEYRING = "/usr/share/keyrings/ubuntu-archive-keyring.gpg"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
PYTHON_MIN = (3, 10)


@dataclass(frozen=True)
class System:
    """A system that debootstrap makes."""

    suite: str
    mirror: str = DEBIAN
    components: str = "main"


SYSTEMS = {
    "debian-11": System("bullseye"),
    "ubuntu-22.04": System("jammy", UBUNTU, "main,universe"),
    "debian-12": System("bookworm"),
    "ubuntu-24.04": System("noble", UBUNTU, "main,universe"),
    "debian-13": System("trixie"),
    "debian-sid": System("sid"),
}

# The program that runs in the chroot; argv: a folder or URL for the checkpoint.
PROGRAM = """
import sys
import numpy as np
import holdfast

path = sys.argv[1]
tree = {"w": np.arange(12, dtype=np.float32).reshape(3, 4), "n": [1, "x"]}
holdfast.save(path, tree)
loaded = holdfast.load(path)
assert (loaded["w"] == tree["w"]).all() and loaded["n"] == tree["n"], loaded
assert holdfast.verify(path)
maps = open("/proc/self/maps").read()
for name in ("libcurl", "libssl.", "libzstd", "libsnappy", "libpcre2"):
    own = name == "libzstd" and "_zstd" in sys.modules  # Python 3.14's
    assert own or name not in maps, name
from holdfast import _engine
flags = open("/proc/cpuinfo").read()
for flag, feature in ((" sse4_2", "crc32c"), (" bmi2", "bmi2")):
    assert (flag in flags) == (feature in _engine.processor_features), (
        f"{feature}: got {_engine.processor_features!r}")
print("saved and loaded", holdfast.__version__)
try:  # nobody listens there, but it is an address
    holdfast.open("https://[::1]:1/nothing")
except OSError as error:
    assert "resolve" not in str(error), error
"""


def make_chroot(name: str, system: System, folder: Path) -> Path:
    """Returns the folder of the system; makes the system if necessary."""
    root = folder / name
    if (root / "made").exists():
        return root
    shutil.rmtree(root, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{name}: debootstrap {system.suite}", flush=True)
    options = [f"--components={system.components}", "--variant=minbase",
               "--include=python3,python3-venv,ca-certificates"]
    script = []
    if system.mirror == UBUNTU:
        # Debian's debootstrap does not know Ubuntu's newest releases.
        script = ["/usr/share/debootstrap/scripts/gutsy"]
        options.append(f"--keyring={UBUNTU_KEYRING}"
                       if Path(UBUNTU_KEYRING).exists() else "--no-check-gpg")
    done = subprocess.run(
        ["debootstrap", *options, system.suite, root, system.mirror,
         *script],
        capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"debootstrap {system.suite}: {done.stdout[-2000:]}")
    shutil.copy(CERTIFICATES, root / "etc/ssl/certs/ca-certificates.crt")
    (root / "made").touch()
    return root


class Inside:
    """Runs commands in a chroot that has /proc, and /dev/shm in memory.

    Leaves no mount behind.
    """

    def __init__(self, root: Path, variables: dict[str, str]) -> None:
        self.root = root
        self._variables = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
            "LANG": "C.UTF-8", **variables}

    def run(self, *command: str, wanted: int = 0) -> str:
        """Runs a command and returns its output. Raises AssertionError unless
        its exit status is `wanted`."""
        script = ('mount -t proc proc "$0/proc" && '
                  'mkdir -p "$0/dev/shm" && '
                  'mount -t tmpfs tmpfs "$0/dev/shm" && '
                  'cp /etc/resolv.conf /etc/hosts "$0/etc/" && '
                  'exec chroot "$0" "$@"')
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", script, self.root, *command],
            env=self._variables, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False)
        assert (done.returncode == 0) == (wanted == 0), (
            f"{self.root.name}: {' '.join(command)}: exit status "
            f"{done.returncode}\n{done.stdout[-3000:]}")
        return done.stdout


@contextlib.contextmanager
def index(wheels: list[Path]) -> Iterator[str]:
    """Serves a package index that has only the wheels; yields its URL."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "simple", "holdfast")
        page.mkdir(parents=True)
        oldest = ".".join(map(str, PYTHON_MIN))
        lines = ["<!DOCTYPE html>"]
        for wheel in wheels:
            shutil.copy(wheel, page)
            lines.append(f'<a href="{wheel.name}" data-requires-python='
                         f'"&gt;={oldest}">{wheel.name}</a>')
        (page / "index.html").write_text("\n".join(lines))
        handler = functools.partial(
            QuietHandler, directory=folder)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/simple"
        finally:
            server.shutdown()
            server.server_close()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def pip_variables() -> dict[str, str]:
    """Returns the variables with which this machine's pip reaches PyPI."""
    kept = ("PIP_INDEX_URL", "PIP_CERT", "PIP_DEFAULT_TIMEOUT", "http_proxy",
            "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "no_proxy")
    return {name: os.environ[name] for name in kept if name in os.environ}


def try_refusal(
    inside: Inside, pip: list[str], python: str, url: str
) -> None:
    inside.run("/venv/bin/python", "-m", "pip", "install", "-q", "-U", "pip")
    said = inside.run(*pip, "--index-url", url, "holdfast", wanted=1)
    assert "require a different python version" in said.lower(), said
    assert ">=3.10" in said, said
    print(f"{inside.root.name}: Python {python} is refused in words")


def try_wheel(
    inside: Inside, pip: list[str], python: str, url: str
) -> None:
    name = inside.root.name
    inside.run(*pip, "numpy")
    inside.run(*pip, "--no-deps", "--index-url", url, "holdfast")
    program = inside.root / "program.py"
    program.write_text(PROGRAM)
    inside.run("rm", "-rf", "/checkpoint")
    for path in ("/checkpoint", f"s3://bucket/{name}"):
        said = inside.run("/venv/bin/python", "/program.py", path)
        assert "saved and loaded" in said, said
        said = inside.run("/venv/bin/holdfast", "ls", path)
        assert "float32" in said, said
    assert (inside.root / "venv/share/man/man1/holdfast.1").exists()
    print(f"{name}: Python {python}: installs, saves, loads, s3://, command")


def try_static(inside: Inside, holdfast: Path) -> None:
    shutil.copy(holdfast, inside.root / "holdfast-static")
    said = inside.run("/holdfast-static", "ls", "s3://bucket/first")
    assert "float32" in said, said
    print(f"{inside.root.name}: the static command reads s3://")


def try_system(name: str, folder: Path, url: str, static: Path | None,
               variables: dict[str, str]) -> None:
    system = SYSTEMS[name]
    inside = Inside(make_chroot(name, system, folder),
                    {**pip_variables(), **variables})
    shutil.rmtree(inside.root / "venv", ignore_errors=True)
    inside.run("python3", "-m", "venv", "/venv")
    python = inside.run(
        "python3", "-c",
        "import sys; print('%d.%d' % sys.version_info[:2])").strip()
    pip = ["/venv/bin/python", "-m", "pip", "install", "-q", "--no-cache-dir"]
    if tuple(map(int, python.split("."))) < PYTHON_MIN:
        try_refusal(inside, pip, python, url)
    else:
        try_wheel(inside, pip, python, url)
    if static is not None:
        try_static(inside, static)


def try_nowhere(static: Path) -> None:
    """Runs the static command in a chroot without any other file."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(static, folder)
        done = subprocess.run(
            ["chroot", folder, f"/{static.name}", "--version"],
            capture_output=True, text=True, check=True)
    assert "holdfast" in done.stdout, done.stdout
    print("an empty folder: the static command runs")


def first_checkpoint(variables: dict[str, str]) -> None:
    """Saves s3://bucket/first with this Python's holdfast."""
    subprocess.run(
        [sys.executable, "-c",
         "import holdfast, numpy; "
         "holdfast.save('s3://bucket/first', {'w': numpy.ones(3, 'float32')})"],
        env={**os.environ, **variables}, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheels", type=Path)
    parser.add_argument("--static", type=Path)
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--chroots", type=Path,
                        default=ROOT / "build" / "chroots")
    args = parser.parse_args()
    wheels = sorted(args.wheels.glob("holdfast-*.whl"))
    assert wheels, f"{args.wheels}: no wheels"
    wheels += args.wheels.glob("holdfast-*.tar.gz")
    import servers
    with servers.moto() as s3, index(wheels) as url:
        variables = {
            "AWS_ENDPOINT_URL": s3.url, "AWS_REGION": servers.REGION,
            "AWS_ACCESS_KEY_ID": s3.access_key,
            "AWS_SECRET_ACCESS_KEY": s3.secret_key}
        if args.static:
            first_checkpoint(variables)
            try_nowhere(args.static)
        for name in args.systems.split(","):
            try_system(name, args.chroots, url, args.static, variables)


if __name__ == "__main__":
    main()
