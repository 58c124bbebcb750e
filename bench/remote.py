#!/usr/bin/env python3
"""Times holdfast and TensorStore in turns on checkpoints in object stores.

usage: remote.py [--server ceph|moto|gcs] [--tree llm|small] [--scale S]
                 [--rounds N] [--latency-ms 0,20] [--peers NAME,...]
                 [--operations save,list,load] [--before DIR] [--out NAME]

Each operation runs in its own process (cold connections, nothing cached)
against a server that this program starts, through tests/remote/chaos_proxy.py,
which adds the latency to each request and counts requests and bytes. The
latency "direct" uses no proxy and counts nothing. Imports are not timed.

holdfast runs as its Python package. TensorStore runs with Orbax's settings for
object stores: OCDBT in zarr v2, 400 MiB data files, one write per array, a
cache of 100 MB for nodes, reads joined over gaps of 1,000,000 bytes. Both load
the checkpoints that either of them saved ("by holdfast", "by TensorStore").
curl fetches the same objects, 32 at a time, and discards them. This shows how
fast the server and the loopback are, and how much CPU they take.

CPU is the client's, user and system, per GB (10^9 bytes) of arrays.
--before DIR adds the peer "before": the python/ folder of another build of
holdfast, e.g. of an older commit.
--out writes NAME.md and NAME.json to bench/results/.
"""

import argparse
import contextlib
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests" / "remote")]

CURLS_AT_ONCE = 32
DATA_FILE_BYTES = 400 * 2**20
COALESCING = {
    "experimental_read_coalescing_threshold_bytes": 1_000_000,
    "experimental_read_coalescing_merged_bytes": 500_000_000_000,
    "experimental_read_coalescing_interval": "1ms",
}
PEERS = ("holdfast", "TensorStore")


# --- the worker process ------------------------------------------------------


def base_spec(url):
    """Returns TensorStore's kvstore spec for the directory at a URL."""
    scheme, rest = url.split("://")
    bucket, path = rest.split("/", 1)
    spec = {"driver": {"s3": "s3", "gs": "gcs"}[scheme], "bucket": bucket,
            "path": path.rstrip("/") + "/"}
    if scheme == "s3":
        spec |= {"endpoint": os.environ["AWS_ENDPOINT_URL"],
                 "aws_region": os.environ["AWS_REGION"]}
        # Ceph compares quoted ETags wrongly and would refuse every write.
        if os.environ.get("HOLDFAST_BENCH_UNCONDITIONAL"):
            spec["use_conditional_write"] = False
    return spec


class TensorStoreWorker:
    """Uses TensorStore as Orbax does."""

    def __init__(self):
        import tensorstore
        self.ts = tensorstore
        self.context = tensorstore.Context(
            {"file_io_concurrency": {"limit": 128},
             "cache_pool#ocdbt": {"total_bytes_limit": 100_000_000}})

    def spec(self, url, name):
        return {"driver": "zarr", "recheck_cached_data": False,
                "recheck_cached_metadata": False,
                "kvstore": {"driver": "ocdbt", "base": base_spec(url),
                            "path": name, "cache_pool": "cache_pool#ocdbt",
                            **COALESCING}}

    def save(self, url, tree):
        opened = []
        for name, array in tree.items():
            spec = self.spec(url, name)
            spec["kvstore"] |= {
                "target_data_file_size": DATA_FILE_BYTES,
                "assume_config": True,
                "config": {"max_inline_value_bytes": 1024,
                           "max_decoded_node_bytes": 100_000_000,
                           "manifest_kind": "single"}}
            spec |= {"store_data_equal_to_fill_value": True,
                     "metadata": {"compressor": {"id": "zstd"},
                                  "shape": array.shape,
                                  "chunks": array.shape}}
            opened.append((array, spec))
        transaction = self.ts.Transaction(atomic=False)
        stores = [(array, self.ts.open(spec, dtype=array.dtype.name,
                                       create=True, context=self.context,
                                       transaction=transaction))
                  for array, spec in opened]
        for write in [store.result().write(array) for array, store in stores]:
            write.result()
        transaction.commit_sync()

    def names(self, url):
        database = self.ts.KvStore.open(
            {"driver": "ocdbt", "base": base_spec(url),
             "cache_pool": "cache_pool#ocdbt", **COALESCING},
            context=self.context).result()
        return [key[:-len(b"/.zarray")].decode()
                for key in database.list().result() if key.endswith(b"/.zarray")]

    def open_all(self, url):
        opened = [self.ts.open(self.spec(url, name), open=True, read=True,
                               context=self.context)
                  for name in self.names(url)]
        return [future.result() for future in opened]

    def list(self, url):
        return len(self.open_all(url))

    def load(self, url):
        reads = [store.read() for store in self.open_all(url)]
        return [read.result() for read in reads]


class HoldfastWorker:
    """Uses holdfast's Python package."""

    def __init__(self):
        import holdfast
        self.holdfast = holdfast

    def save(self, url, tree):
        import trees
        self.holdfast.save(url, trees.nested(tree))

    def list(self, url):
        return len(self.holdfast.open(url).leaves)

    def load(self, url):
        return self.holdfast.load(url)


WORKERS = {"holdfast": HoldfastWorker, "before": HoldfastWorker,
           "TensorStore": TensorStoreWorker}


def work(task):
    """Runs one operation, and prints its cost as JSON."""
    worker = WORKERS[task["peer"]]()
    arguments = [task["url"]]
    if task["operation"] == "save":
        import trees
        arguments.append(trees.TREES[task["tree"]](task["scale"]))
    before = resource.getrusage(resource.RUSAGE_SELF)
    start = time.monotonic()
    result = getattr(worker, task["operation"])(*arguments)
    seconds = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({
        "seconds": seconds,
        "cpu_seconds": after.ru_utime + after.ru_stime - before.ru_utime -
        before.ru_stime,
        "peak_bytes": after.ru_maxrss * 1024}), flush=True)
    del result
    os._exit(0)  # skip freeing memory, which is not timed and takes long


# --- the program that starts the workers -------------------------------------


def run_worker(environment, **task):
    """Runs one task in a worker process, and returns its output."""
    done = subprocess.run(
        [sys.executable, __file__, "--work", json.dumps(task)],
        env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{task}: {done.stderr[-1500:]}")
    return json.loads(done.stdout.splitlines()[-1])


def keys_below(server, prefix):
    """Returns the keys of all objects below the prefix."""
    if server.kind == "s3":
        pages = server.boto().get_paginator("list_objects_v2").paginate(
            Bucket="bucket", Prefix=prefix)
        return [item["Key"] for page in pages
                for item in page.get("Contents", ())]
    import urllib.parse
    import urllib.request
    keys, token = [], ""
    while True:
        query = urllib.parse.urlencode({"prefix": prefix, "pageToken": token})
        with urllib.request.urlopen(
                f"{server.url}/storage/v1/b/bucket/o?{query}") as answer:
            page = json.load(answer)
        keys += [item["name"] for item in page.get("items", ())]
        token = page.get("nextPageToken", "")
        if not token:
            return keys


def url_for_curl(server, proxy, key):
    """Returns a URL that works without headers."""
    import urllib.parse
    if server.kind == "s3":
        return proxy.boto().generate_presigned_url(
            "get_object", Params={"Bucket": "bucket", "Key": key})
    quoted = urllib.parse.quote(key, safe="")
    return f"{proxy.url}/storage/v1/b/bucket/o/{quoted}?alt=media"


def curl(server, proxy, prefix):
    """Fetches all objects with curl, and discards them."""
    with tempfile.NamedTemporaryFile("w", suffix=".curl") as config:
        for key in keys_below(server, prefix):
            config.write(f'url = "{url_for_curl(server, proxy, key)}"\n'
                         'output = "/dev/null"\n')
        config.flush()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.monotonic()
        subprocess.run(["curl", "--silent", "--no-progress-meter", "--fail", "--parallel",
                        "--parallel-max", str(CURLS_AT_ONCE), "--config",
                        config.name], check=True)
        seconds = time.monotonic() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"seconds": seconds, "peak_bytes": 0,
            "cpu_seconds": after.ru_utime + after.ru_stime - before.ru_utime -
            before.ru_stime}


class Bench:
    """Runs rounds of all operations on one server."""

    def __init__(self, args, server, proxy):
        self.args = args
        self.server = server
        self.proxy = proxy
        self.results = {}  # (operation, peer, latency) -> list of dicts
        self.errors = {}

    def environment(self, latency, peer):
        path = os.environ.get("PYTHONPATH", "")
        more = {"HOLDFAST_BENCH_UNCONDITIONAL": "1",
                "GOOGLE_AUTH_TOKEN_FOR_TESTING": "abc",
                "PYTHONPATH": self.args.before if peer == "before" else path}
        through = self.server if latency == "direct" else self.proxy
        return through.environment(**more)

    def once(self, operation, label, latency, action):
        """Runs `action` and records its cost, or its error if it fails."""
        self.proxy.reset()
        if latency not in ("direct", "0"):
            self.proxy.set(latency_ms=float(latency))
        try:
            result = action()
        except Exception as error:
            self.errors[(operation, label, latency)] = str(error)[-600:]
            print(f"{operation} {label} {latency}: {error}", file=sys.stderr)
            return
        finally:
            counters = self.proxy.counters()
            self.proxy.reset()
        result["counters"] = {} if latency == "direct" else counters
        self.results.setdefault((operation, label, latency), []).append(result)
        print(f"{operation:5} {label:28} {latency:>7} "
              f"{result['seconds']:8.3f} s {result['cpu_seconds']:7.3f} CPU s "
              f"{counters}", flush=True)

    def one_round(self, number):
        args = self.args
        peers = args.peers[number % len(args.peers):]
        peers += args.peers[:number % len(args.peers)]
        for latency in args.latencies:
            for peer in peers:
                self.peer_round(number, latency,
                                self.environment(latency, peer), peer)
            if "load" in args.operations:
                through = self.server if latency == "direct" else self.proxy
                for by in args.peers:
                    self.once("load", f"curl, by {by}", latency,
                              lambda by=by: curl(self.server, through,
                                                 f"{by}/first/"))

    def peer_round(self, number, latency, environment, peer):
        def task(operation, url):
            return lambda: run_worker(
                environment, peer=peer, operation=operation, url=url,
                tree=self.args.tree, scale=self.args.scale)
        root = self.server.root
        if "save" in self.args.operations:
            self.once("save", peer, latency,
                      task("save", f"{root}/{peer}/{latency}-{number}"))
            self.remove(f"{peer}/{latency}-{number}/")
        for operation in ("list", "load"):
            if operation not in self.args.operations:
                continue
            for by in self.args.peers:
                if peer != "TensorStore" and by == "TensorStore":
                    url = f"{root}/{by}/first/manifest.ocdbt"
                else:
                    url = f"{root}/{by}/first"
                self.once(operation, f"{peer}, by {by}", latency,
                          task(operation, url))

    def remove(self, prefix):
        keys = keys_below(self.server, prefix)
        if self.server.kind == "s3":
            for start in range(0, len(keys), 1000):
                self.server.boto().delete_objects(
                    Bucket="bucket", Delete={"Objects": [
                        {"Key": key} for key in keys[start:start + 1000]]})
            return
        import urllib.parse
        import urllib.request
        for key in keys:
            quoted = urllib.parse.quote(key, safe="")
            urllib.request.urlopen(urllib.request.Request(
                f"{self.server.url}/storage/v1/b/bucket/o/{quoted}",
                method="DELETE")).close()

    def prepare(self):
        """Lets each peer save the files that are loaded later."""
        for peer in self.args.peers:
            run_worker(self.environment("direct", peer), peer=peer,
                       operation="save",
                       url=f"{self.server.root}/{peer}/first",
                       tree=self.args.tree, scale=self.args.scale)


def median(results, field):
    return statistics.median(result[field] for result in results)


def markdown(bench, byte_count, leaf_count):
    """Returns the tables in Markdown."""
    import peers
    import runs
    args = bench.args
    facts = runs.machine_facts("/tmp")
    lines = [f"# {args.tree}, scale {args.scale:g} on {args.server}: "
             f"{leaf_count} leaves, {byte_count / 2**20:.0f} MiB", "",
             f"Medians of {args.rounds} rounds; operations take turns, each in "
             "a new process. Client and server run on one machine. Latency: "
             "milliseconds that the proxy adds to each request; \"direct\": "
             "without the proxy. The proxy counts the requests and MiB.", ""]
    for operation in args.operations:
        lines += [f"## {operation}", "",
                  "| by | latency | s | MB/s | CPU s per GB | peak MiB | "
                  "requests | MiB moved |", "|---|--:|--:|--:|--:|--:|--:|--:|"]
        for (kind, label, latency), results in bench.results.items():
            if kind != operation:
                continue
            seconds = median(results, "seconds")
            cpu = median(results, "cpu_seconds") / (byte_count / 1e9)
            counters = results[-1]["counters"]
            moved = (counters.get("sent_bytes", 0) +
                     counters.get("received_bytes", 0)) / 2**20
            speed = (f"{byte_count / 1e6 / seconds:.0f}"
                     if operation != "list" else "")
            lines.append(
                f"| {label} | {latency} | {seconds:.3f} | {speed} | {cpu:.2f} | "
                f"{median(results, 'peak_bytes') / 2**20:.0f} | "
                f"{counters.get('requests', '')} | "
                f"{moved:.0f} |" if counters else
                f"| {label} | {latency} | {seconds:.3f} | {speed} | {cpu:.2f} | "
                f"{median(results, 'peak_bytes') / 2**20:.0f} | | |")
        for (kind, label, latency), text in bench.errors.items():
            if kind == operation:
                lines.append(f"| {label} | {latency} | failed: "
                             f"{text.splitlines()[-1][:80]} | | | | | |")
        lines.append("")
    lines += [f"Machine: {facts['cores']} cores of {facts['cpu']}, "
              f"{facts['ram_gib']} GiB RAM, Python {facts['python']}.",
              "Versions: " + ", ".join(
                  f"{name} {version}" for name, version in
                  peers.versions().items() if version) + ".", "",
              f"    python3 bench/remote.py --server {args.server} "
              f"--tree {args.tree} --scale {args.scale:g} "
              f"--rounds {args.rounds} "
              f"--latency-ms {','.join(args.latencies)}", ""]
    return "\n".join(lines)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", default="ceph",
                        choices=("ceph", "moto", "gcs"))
    parser.add_argument("--tree", default="llm", choices=("llm", "small"))
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--latency-ms", default="direct,0,20")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--operations", default="save,list,load")
    parser.add_argument("--before", metavar="DIR",
                        help="python/ of another build")
    parser.add_argument("--out", help="name of the files in bench/results/")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    args = parse_arguments()
    if args.work:
        work(json.loads(args.work))
        return
    args.latencies = args.latency_ms.split(",")
    args.peers = args.peers.split(",") + ["before"] * bool(args.before)
    args.operations = args.operations.split(",")
    import servers
    import trees
    tree = trees.TREES[args.tree](args.scale)
    byte_count = sum(array.nbytes for array in tree.values())
    leaf_count = len(tree)
    del tree
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(getattr(servers, args.server)())
        proxy = stack.enter_context(servers.chaos(server))
        bench = Bench(args, server, proxy)
        bench.prepare()
        for number in range(args.rounds):
            bench.one_round(number)
    text = markdown(bench, byte_count, leaf_count)
    print(text)
    if args.out:
        import runs
        runs.write_results(args.out, text, [
            {"operation": operation, "by": label, "latency": latency,
             "rounds": rounds}
            for (operation, label, latency), rounds in bench.results.items()])


if __name__ == "__main__":
    main()
