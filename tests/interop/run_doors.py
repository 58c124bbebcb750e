"""Tools that do not know checkpoints read them through `holdfast serve`,
fsspec and zarr.

Each checkpoint is a random tree in a random layout. safetensors (a download),
numpy (npz by ranges), TensorStore (zarr over HTTP, and the served OCDBT
database), zarr-python, xarray and dask must read the values that holdfast.load
returns. The virtual files must have the sha256 of what `holdfast convert`
writes. Then hostile requests are sent: none may end the server, or get a byte
that is not served. Then many clients request large answers and hardly read.

usage: run_doors.py HOLDFAST [--checkpoints N] [--hostile N] [--seed N]
"""

import argparse
import contextlib
import hashlib
import http.client
import io
import json
import os
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse

import fsspec
import numpy as np
import safetensors.numpy
import tensorstore as ts
import zarr

import holdfast
import holdfast.fsspec
import random_trees
from holdfast.zarr import CheckpointStore

SECRET = "words that nobody may read"


class Served:
    """`holdfast serve` of some paths."""

    def __init__(self, command, paths):
        self.process = subprocess.Popen(
            [command, "serve", "--port", "0", "--quiet", *map(str, paths)],
            stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        self.port = urllib.parse.urlsplit(self.url).port

    def get(self, path, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port,
                                                timeout=60)
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response.status, body

    def whole(self, path):
        status, body = self.get(path)
        if status != 200:
            raise AssertionError(f"{path}: {status}: {body[:200]}")
        return body

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()


def save_random(seed, folder):
    """Saves the seed's random tree; returns its path."""
    case = random_trees.make_case(seed)
    path = folder / f"c{seed}"
    holdfast.save(
        path, case.tree, format=case.api, zarr_format=case.zarr,
        ocdbt=case.ocdbt, chunk_bytes=case.chunk_bytes, durable=False,
        compression=None if case.compression == "none" else case.compression)
    return path


def arrays_of(path):
    """Returns the arrays that the engine reads, by name."""
    with holdfast.open(path) as opened:
        return {name: np.asarray(leaf) for name, leaf in opened.items()
                if isinstance(leaf, holdfast.StoredArray)}


def check_equal(what, got, want):
    got = np.asarray(got)
    if got.shape != want.shape or got.tobytes() != want.tobytes():
        raise AssertionError(f"{what}: {got.dtype}{got.shape} is not "
                             f"{want.dtype}{want.shape}, or other bytes")


def quoted(name):
    return urllib.parse.quote(name, safe="")


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def check_conversions(command, path, base, served, folder):
    """Checks that the virtual files are equal to converted files."""
    for name, kind in (("safetensors/model.safetensors", "safetensors"),
                       ("npz/arrays.npz", "npz")):
        target = folder / ("model." + kind)
        subprocess.run([command, "convert", "--quiet", "--to", kind,
                        "--no-compare", str(path), str(target)], check=True)
        body = served.whole(f"{base}as/{name}")
        if sha256(body) != sha256(target.read_bytes()):
            raise AssertionError(f"{kind}: not the bytes of the conversion")
        door = fsspec.filesystem("holdfast", skip_instance_cache=True)
        if door.cat_file(f"holdfast://{path}/as/{name}") != body:
            raise AssertionError(f"{kind}: fsspec has other bytes")
        target.unlink()
        yield body


def is_numpys(array):
    return array.dtype.isbuiltin == 1


def path_of(name):
    """Returns the path of a leaf in the zarr group, without the C++ code."""
    own = re.compile(r"(\.{0,2}|\.zgroup|\.zarray|\.zattrs|\.zmetadata)_*")
    parts = []
    for part in name.split("/"):
        escaped = re.sub("%(?=00|5C|25)", "%25", part)
        escaped = escaped.replace("\0", "%00").replace("\\", "%5C")
        parts.append(escaped + "_" * bool(own.fullmatch(part)))
    return "/".join(parts)


def check_tensors(model, want):
    """Checks a safetensors file by parsing it, and with the safetensors library
    if numpy has the dtypes."""
    header_bytes = 8 + int.from_bytes(model[:8], "little")
    header = json.loads(model[8:header_bytes])
    header.pop("__metadata__", None)
    for name, array in want.items():
        first, end = header[name or "value"]["data_offsets"]
        if model[header_bytes + first:header_bytes + end] != array.tobytes():
            raise AssertionError(f"safetensors {name}: other bytes")
    try:
        tensors = safetensors.numpy.load(model)
    except KeyError:  # numpy has no dtype for one of them
        return
    for name, array in want.items():
        if is_numpys(array) and array.dtype.kind != "c":  # stored as floats
            check_equal(f"safetensors {name}", tensors[name or "value"], array)


def check_one(seed, command, path, base, served, folder):
    want = arrays_of(path)
    model, _ = check_conversions(command, path, base, served, folder)
    check_tensors(model, want)
    rng = random.Random(seed)
    for _ in range(8):
        first = rng.randrange(len(model))
        last = min(len(model) - 1, first + rng.randrange(5000))
        status, part = served.get(f"{base}as/safetensors/model.safetensors",
                                  Range=f"bytes={first}-{last}")
        if status != 206 or part != model[first:last + 1]:
            raise AssertionError(f"range {first}-{last}: {status}")
    with fsspec.open(served.url + base[1:] + "as/npz/arrays.npz", "rb") as file:
        archive = np.load(io.BytesIO(file.read()))
    store = CheckpointStore(str(path))
    through_http = f"{served.url}{base[1:]}as/zarr/"
    info = json.loads(served.get(base + "as/zarr/.zmetadata")[1])
    for name, array in want.items():
        stored = name or "value"
        if is_numpys(array) and "\0" not in name:
            check_equal(f"npz {name}", archive[stored], array)
    zarr_count = 0
    arrays = {path_of(name): array for name, array in want.items()}
    arrays |= {"state." + path_of(name.removeprefix("state.")): array
               for name, array in want.items() if name.startswith("state.")}
    for key in info["metadata"]:
        if not key.endswith("/.zarray"):
            continue
        name = key[:-len("/.zarray")]
        plain = name.removeprefix("state/")
        array = arrays.get(name,
                           arrays.get(plain, arrays.get("state." + plain)))
        if array is None:
            continue  # a scalar
        zarr_count += 1
        opened = zarr.open_array(store, path=name, mode="r", zarr_format=2)
        check_equal(f"zarr {name}", opened[...], array)
        spec = {"driver": "zarr", "kvstore": {
            "driver": "http",
            "base_url": through_http + urllib.parse.quote(name)}}
        read = ts.open(spec, read=True).result().read().result()
        check_equal(f"tensorstore {name}", read, array)
    missing = [name for name, array in want.items()
               if is_numpys(array) and array.size]
    if zarr_count < len(missing):
        raise AssertionError(f"zarr has {zarr_count} of {len(missing)} arrays")
    return len(want)


def random_request(rng, paths):
    """Returns bytes that a client might send, mostly not a valid request."""
    request = bytearray(
        f"GET {rng.choice(paths)} HTTP/1.1\r\nHost: localhost\r\n"
        f"Range: bytes={rng.randrange(100)}-{rng.randrange(100)}\r\n\r\n"
        .encode())
    for _ in range(rng.randrange(8)):
        at = rng.randrange(len(request) + 1)
        kind = rng.randrange(5)
        if kind == 0 and at < len(request):
            request[at] = rng.randrange(256)
        elif kind == 1:
            del request[at:at + rng.randrange(20)]
        elif kind == 2:
            request[at:at] = rng.choice(
                [b"/../", b"%2e%2e%2f", b"%00", b"\r\n", b"\0", b"%", b"?", b"#",
                 b"Transfer-Encoding: chunked\r\n", b"Content-Length: 9\r\n",
                 b"Content-Length: -1\r\n", b"Expect: 100-continue\r\n"])
        elif kind == 3:
            request[at:at] = bytes([rng.randrange(256)]) * rng.randrange(30000)
        else:
            request = request * 2
    return bytes(request)


def check_hostile(served, names, count, seed):
    rng = random.Random(seed)
    paths = ["/", "/at/", "/healthz", "/at/../../etc/passwd"]
    for name in names:
        paths += [f"/at/{name}/newest/files/../../secret",
                  f"/at/{name}/newest/files/%2e%2e/secret",
                  f"/at/{name}/newest/as/zarr/.zmetadata",
                  f"/at/{name}/newest/as/safetensors/model.safetensors"]
    good = served.whole(paths[-1])
    for i in range(count):
        with socket.create_connection(("127.0.0.1", served.port), 60) as client:
            try:
                client.sendall(random_request(rng, paths))
                client.shutdown(socket.SHUT_WR)
                answer = b""
                while piece := client.recv(1 << 16):
                    answer += piece
            except OSError:
                continue  # the server closed before it read everything
        if SECRET.encode() in answer or b"root:" in answer:
            raise AssertionError(f"request {i} got out of the checkpoint")
    if served.whole(paths[-1]) != good or served.process.poll() is not None:
        raise AssertionError("the server is not what it was")


def memory_bytes(process):
    """Returns the peak of the process's memory, in bytes."""
    text = pathlib.Path(f"/proc/{process.pid}/status").read_text("ascii")
    return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", text)[1])


def connection_count(process):
    count = 0
    for file in pathlib.Path(f"/proc/{process.pid}/fd").iterdir():
        # The server closes files while they are listed.
        with contextlib.suppress(FileNotFoundError):
            count += os.readlink(file).startswith("socket:")
    return count


def check_slow_readers(command, folder, count=200):
    """Checks clients that read little or nothing of large answers: they cost
    little memory, do not delay others, and are disconnected after the limit of
    30 s for each piece."""
    large_bytes = 64 << 20
    path = folder / "large"
    holdfast.save(path, {"w": np.zeros(large_bytes, np.int8)}, durable=False)
    served = Served(command, [path])
    try:
        model = "/as/safetensors/model.safetensors"
        whole = len(served.whole(model))
        before, alone = memory_bytes(served.process), connection_count(
            served.process)
        clients = []
        for i in range(count):
            client = socket.create_connection(("127.0.0.1", served.port), 60)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.sendall(f"GET {model} HTTP/1.1\r\nHost: localhost\r\n"
                           f"Range: bytes={i}-\r\n\r\n".encode())
            clients.append((client, len(client.recv(1))))
        begun = time.monotonic()
        if served.get(model, Range="bytes=8-99")[0] != 206:
            raise AssertionError("slow readers keep others out")
        waited = time.monotonic() - begun
        # The server may hold two pieces for each client.
        grown = memory_bytes(served.process) - before
        if grown > count * (512 << 10):
            raise AssertionError(f"{count} slow readers cost {grown} bytes")
        while connection_count(served.process) > alone:
            if time.monotonic() - begun > 120:
                raise AssertionError("slow readers stay for ever")
            for client, _ in clients[::2]:
                with contextlib.suppress(OSError):
                    client.recv(1, socket.MSG_DONTWAIT)
            time.sleep(0.1)
        for client, got in clients:
            with client, contextlib.suppress(OSError):
                while piece := client.recv(1 << 16):
                    got += len(piece)
            if got >= whole:
                raise AssertionError("a slow reader was given all")
        print(f"{count} slow readers: {grown >> 10} KiB, another waited "
              f"{waited:.3f} s, gone after {time.monotonic() - begun:.0f} s")
    finally:
        served.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command")
    parser.add_argument("--checkpoints", type=int, default=100)
    parser.add_argument("--hostile", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    begun, failed, leaf_count = time.monotonic(), 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "secret").write_text(SECRET)
        seeds = range(args.seed, args.seed + args.checkpoints)
        paths = {seed: save_random(seed, folder) for seed in seeds}
        served = Served(args.command, paths.values())
        try:
            for seed, path in paths.items():
                base = f"/at/{quoted(path.name)}/newest/"
                try:
                    leaf_count += check_one(seed, args.command, path, base,
                                            served, folder)
                except Exception as error:  # noqa: BLE001
                    failed += 1
                    print(f"seed {seed}: {type(error).__name__}: {error}")
            check_hostile(served, [path.name for path in paths.values()],
                          args.hostile, args.seed)
        finally:
            served.close()
        check_slow_readers(args.command, folder)
    print(f"{args.checkpoints - failed} of {args.checkpoints} checkpoints with "
          f"{leaf_count} arrays, {args.hostile} hostile requests, "
          f"{time.monotonic() - begun:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
