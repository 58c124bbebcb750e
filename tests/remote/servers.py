"""Starts and stops the servers that tests of object stores need.

Each function is a context manager that yields a `Server`: its URL, and the
environment that a client needs to use it. Servers listen on 127.0.0.1 at their
own ports, keep their files in a temporary folder, and end with the context,
also when the program is killed (they get SIGTERM when their parent dies).

    with servers.moto() as s3, servers.chaos(s3) as proxy:
        proxy.set(latency_ms=20, faults=[{"kind": "throttle", "times": 3}])
        subprocess.run([cli, "ls", "s3://bucket/x"], env=proxy.environment())

As a program, for use by hand:  python servers.py moto|ceph|gcs|range [FOLDER]
Needs moto[server] and boto3 (requirements.txt); ceph() needs Debian's radosgw,
ceph-mon, ceph-osd and ceph-common.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BUCKET = "bucket"
START_SECONDS_MAX = 90.0
REGION = "us-east-1"
# Such settings of the developer's machine would change the tests.
FOREIGN_VARIABLES = ("AWS_", "GOOGLE_", "CLOUDSDK_", "STORAGE_EMULATOR_HOST",
                     "TENSORSTORE_", "http_proxy", "https_proxy", "HTTP_PROXY",
                     "HTTPS_PROXY", "ALL_PROXY", "all_proxy")


@dataclass
class Server:
    """A running server, or a proxy for one."""

    kind: str  # "s3", "gcs", "http"
    url: str
    access_key: str = ""
    secret_key: str = ""
    folder: Path | None = None
    # Other variables of a client's environment.
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def root(self) -> str:
        """The URL below which tests put their objects, such as s3://bucket."""
        return {"s3": f"s3://{BUCKET}", "gcs": f"gs://{BUCKET}",
                "http": self.url}[self.kind]

    def environment(self, **more: str) -> dict[str, str]:
        """Returns this process's environment, changed so that a client uses
        this server."""
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith(FOREIGN_VARIABLES)}
        clean["AWS_EC2_METADATA_DISABLED"] = "true"
        clean["NO_PROXY"] = clean["no_proxy"] = "127.0.0.1,localhost"
        if self.kind == "s3":
            clean |= {"AWS_ENDPOINT_URL": self.url,
                      "AWS_ACCESS_KEY_ID": self.access_key,
                      "AWS_SECRET_ACCESS_KEY": self.secret_key,
                      "AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION,
                      "AWS_CONFIG_FILE": os.devnull,
                      "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
        elif self.kind == "gcs":
            clean |= {"STORAGE_EMULATOR_HOST": self.url,
                      "TENSORSTORE_GCS_HTTP_URL": self.url}
        return clean | self.variables | more

    def boto(self, service: str = "s3", **options: Any) -> Any:
        """Returns a boto3 client of this server."""
        return boto_client(self.url, self.access_key, self.secret_key, service,
                           **options)


@dataclass
class Chaos(Server):
    """chaos_proxy.py for a server; it documents the rules and counters."""

    def set(self, **rules: Any) -> None:
        """Replaces the rules; without any, the proxy only forwards."""
        self._ask("rules", json.dumps(rules).encode())

    def reset(self) -> None:
        """Removes all rules, and sets the counters to 0."""
        self._ask("reset", b"")

    def counters(self) -> dict[str, int]:
        """Returns counts since the last reset, without those that are 0."""
        counters: dict[str, int] = json.loads(self._ask("counters"))
        return counters

    def requests(self) -> list[str]:
        """Returns "METHOD TARGET RANGE STATUS" for the last requests."""
        requests: list[str] = json.loads(self._ask("requests"))
        return requests

    def _ask(self, name: str, body: bytes | None = None) -> bytes:
        request = urllib.request.Request(f"{self.url}/_chaos/{name}", body)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=30) as answer:
            text: bytes = answer.read()
        return text


def boto_client(url: str, access_key: str, secret_key: str, service: str,
                **options: Any) -> Any:
    """Returns a boto3 client that ignores the machine's own settings."""
    import boto3  # type: ignore[import-untyped,unused-ignore]
    from botocore.config import Config  # type: ignore[import-untyped,unused-ignore]
    config = Config(s3={"addressing_style": "path"}, proxies={},
                    retries={"max_attempts": 10})
    return boto3.client(service, endpoint_url=url, region_name=REGION,
                        aws_access_key_id=access_key,
                        aws_secret_access_key=secret_key, config=config,
                        **options)


def free_port() -> int:
    """Returns a random port at which nothing listens, below the system's
    ephemeral ports, so that it stays free until it is used."""
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def await_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Waits until a process listens at the port."""
    def listens() -> bool:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        return False
    await_true(listens, process, log)


def await_true(question: Callable[[], bool], process: subprocess.Popen[bytes],
               log: Path) -> None:
    """Polls until the answer is true. Raises RuntimeError if the process has
    ended, or if it takes too long."""
    end = time.monotonic() + START_SECONDS_MAX
    while not question():
        if process.poll() is not None or time.monotonic() > end:
            text = log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{process.args!r} does not start: {text}")
        time.sleep(0.05)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


@contextlib.contextmanager
def program(arguments: Sequence[str], log: Path,
            **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a child process until the context ends; its output goes to `log`."""
    with log.open("wb") as out:
        process = subprocess.Popen(  # noqa: PLW1509
            list(arguments), stdout=out, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, start_new_session=True,
            preexec_fn=_die_with_parent, env=os.environ | variables)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Makes a folder that is removed with the context."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-remote-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def printing_program(arguments: Sequence[str]) -> Iterator[str]:
    """Runs a program that prints its URL in its first line; yields the URL."""
    with scratch() as folder:
        log = folder / "log"
        with program([sys.executable, *arguments], log) as process:
            await_true(lambda: b"\n" in log.read_bytes(), process, log)
            yield log.read_text().splitlines()[0]


POLICY = json.dumps({
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": ["s3:*", "sts:*", "iam:*"],
                   "Resource": "*"}]})


@contextlib.contextmanager
def moto(*, checks_signatures: bool = True) -> Iterator[Server]:
    """Runs moto's S3 with one user and one bucket.

    Without checks_signatures, a proxy may change signed headers."""
    port = free_port()
    # Three calls create the user; every later call must be signed.
    variables = {"INITIAL_NO_AUTH_ACTION_COUNT": "3"} if checks_signatures else {}
    with scratch() as folder:
        log = folder / "moto.log"
        with program([sys.executable, "-m", "moto.server", "-H", "127.0.0.1",
                      "-p", str(port)], log, **variables) as process:
            await_port(port, process, log)
            server = Server("s3", f"http://127.0.0.1:{port}", "AK", "SK")
            iam = server.boto("iam")
            iam.create_user(UserName="tester")
            key = iam.create_access_key(UserName="tester")["AccessKey"]
            iam.put_user_policy(UserName="tester", PolicyName="all",
                                PolicyDocument=POLICY)
            server = replace(server, access_key=key["AccessKeyId"],
                             secret_key=key["SecretAccessKey"])
            server.boto().create_bucket(Bucket=BUCKET)
            yield server


@contextlib.contextmanager
def gcs(*arguments: str) -> Iterator[Server]:
    """Runs gcs_fake.py with one bucket and the given arguments."""
    with printing_program([str(HERE / "gcs_fake.py"), "--port", "0", "--bucket",
                           BUCKET, *arguments]) as url:
        yield Server("gcs", url)


@contextlib.contextmanager
def files(folder: Path, certificate: str = "", key: str = "") -> Iterator[Server]:
    """Runs range_server.py on a folder, with TLS if a certificate is given."""
    tls = ["--certificate", certificate, "--key", key] if certificate else []
    with printing_program([str(HERE / "range_server.py"), str(folder),
                           *tls]) as url:
        yield Server("http", url, folder=folder)


@contextlib.contextmanager
def chaos(server: Server, **rules: Any) -> Iterator[Chaos]:
    """Runs chaos_proxy.py for a server, with the given rules."""
    with printing_program([str(HERE / "chaos_proxy.py"), "--upstream",
                           server.url, "--rules", json.dumps(rules)]) as url:
        known = {item.name: getattr(server, item.name)
                 for item in fields(Server)}
        yield Chaos(**{**known, "url": url})


def self_signed(folder: Path, host: str = "127.0.0.1") -> tuple[str, str]:
    """Makes a self-signed certificate for an address; returns the paths of the
    certificate and of its key."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
         "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
         f"/CN={host}", "-addext", f"subjectAltName=IP:{host}", "-keyout",
         str(key), "-out", str(certificate)], check=True, capture_output=True)
    return str(certificate), str(key)


CEPH_CONFIG = """
[global]
fsid = {fsid}
mon host = [v2:127.0.0.1:{mon_port},v1:127.0.0.1:{mon_port_1}]
public addr = 127.0.0.1
cluster addr = 127.0.0.1
ms bind ipv6 = false
auth cluster required = none
auth service required = none
auth client required = none
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd pool default pgp num = 8
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon warn on pool no redundancy = false
mon pg warn min per osd = 0
mon max pg per osd = 5000
mon data avail crit = 1
mon data avail warn = 1
osd objectstore = memstore
memstore device bytes = 8589934592
osd memory target = 939524096
osd max object size = 134217728
osd op queue = wpq
run dir = {folder}/run
admin socket = {folder}/run/$name.$pid.asok
log file = {folder}/log/$name.log
crash dir = {folder}/log
mon cluster log file = {folder}/log/cluster.log
mon data = {folder}/mon
osd data = {folder}/osd
debug ms = 0
ms mon client mode = crc
ms mon cluster mode = crc
ms mon service mode = crc
ms client mode = crc
ms service mode = crc
ms cluster mode = crc
[client]
rgw data = {folder}/rgw
rgw frontends = beast endpoint=127.0.0.1:{port} tcp_nodelay=1
rgw enable usage log = false
rgw enable ops log = false
rgw thread pool size = 16
rgw gc max objs = 8
rgw lc max objs = 1
rgw num control oids = 1
rgw override bucket index max shards = 1
rgw dns name = localhost
rgw crypt require ssl = false
rgw sts key = abcdefghijklmnop
rgw s3 auth use sts = true
"""


@dataclass
class Ceph(Server):
    """A Ceph object gateway, on which `admin` runs radosgw-admin."""

    config: str = ""

    def admin(self, *arguments: str) -> str:
        """Returns radosgw-admin's output; CalledProcessError if it fails."""
        return subprocess.run(
            ["radosgw-admin", "-c", self.config, "-n", "client.rgw",
             *arguments], check=True, capture_output=True, text=True).stdout


def _ceph_folder(folder: Path) -> tuple[str, int]:
    """Prepares a folder; returns the configuration file and gateway's port."""
    for name in ("mon", "osd", "run", "log", "rgw"):
        (folder / name).mkdir()
    ports = [free_port() for _ in range(3)]
    config = folder / "ceph.conf"
    config.write_text(CEPH_CONFIG.format(
        fsid=uuid.uuid4(), folder=folder, mon_port=ports[0],
        mon_port_1=ports[1], port=ports[2]))
    return str(config), ports[2]


def _prepare_mon(config: str, folder: Path) -> None:
    text = Path(config).read_text()
    fsid = text.split("fsid = ")[1].split()[0]
    address = text.split("mon host = ")[1].split()[0]
    for arguments in (
            ["ceph-authtool", "--create-keyring", f"{folder}/mon.keyring",
             "--gen-key", "-n", "mon.", "--cap", "mon", "allow *"],
            ["monmaptool", "--create", "--addv", "a", address, "--fsid", fsid,
             f"{folder}/monmap"],
            ["ceph-mon", "-c", config, "--mkfs", "-i", "a", "--monmap",
             f"{folder}/monmap", "--keyring", f"{folder}/mon.keyring"]):
        subprocess.run(arguments, check=True, capture_output=True)


def _answers(*arguments: str, contains: str = "") -> bool:
    done = subprocess.run(arguments, check=False, capture_output=True, text=True)
    return done.returncode == 0 and contains in done.stdout


@contextlib.contextmanager
def ceph() -> Iterator[Ceph]:
    """Runs a Ceph cluster in memory with its S3 gateway. Takes about 13 s to
    start."""
    with scratch() as folder, contextlib.ExitStack() as stack:
        config, port = _ceph_folder(folder)
        _prepare_mon(config, folder)
        cluster = ["ceph", "-c", config, "--connect-timeout", "5"]
        log = folder / "log"
        mon = stack.enter_context(program(
            ["ceph-mon", "-c", config, "-i", "a", "-f"], log / "mon.out"))
        await_true(lambda: _answers(*cluster, "mon", "stat"), mon,
                   log / "mon.out")
        name = str(uuid.uuid4())
        osd_id = subprocess.run([*cluster, "osd", "new", name], check=True,
                                capture_output=True, text=True).stdout.strip()
        subprocess.run(["ceph-osd", "-c", config, "-i", osd_id, "--mkfs",
                        "--osd-uuid", name, "--no-mon-config"], check=True,
                       capture_output=True)
        osd = stack.enter_context(program(
            ["ceph-osd", "-c", config, "-i", osd_id, "-f"], log / "osd.out"))
        await_true(lambda: _answers(*cluster, "osd", "stat", contains="1 up"),
                   osd, log / "osd.out")
        gateway = stack.enter_context(program(
            ["radosgw", "-c", config, "-n", "client.rgw", "-f"],
            log / "rgw.out"))
        await_port(port, gateway, log / "rgw.out")
        server = Ceph("s3", f"http://127.0.0.1:{port}", "AKIATESTTESTTEST",
                      "secretsecretsecretsecretsecretsecretsecr",
                      config=config)
        server.admin("user", "create", "--uid=tester", "--display-name=tester",
                     f"--access-key={server.access_key}",
                     f"--secret-key={server.secret_key}",
                     "--caps=roles=*")
        server.boto().create_bucket(Bucket=BUCKET)
        yield server


def main() -> int:
    """Starts a server, prints its environment, and waits for an interrupt."""
    kinds: dict[str, Callable[[], Any]] = {
        "moto": moto, "ceph": ceph, "gcs": gcs,
        "range": lambda: files(Path(sys.argv[2]))}
    if len(sys.argv) < 2 or sys.argv[1] not in kinds:
        print(__doc__, file=sys.stderr)
        return 2
    with kinds[sys.argv[1]]() as server:
        before = os.environ
        for name, value in server.environment().items():
            if before.get(name) != value:
                print(f"export {name}={value}")
        print(f"# {server.root}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
