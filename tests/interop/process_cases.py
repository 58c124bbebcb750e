"""Random saves and restores by several processes, in Orbax and holdfast.orbax.

Every process of a `process_jobs.Job` calls these functions with the same
arguments. A case depends only on its seed.
"""

import dataclasses
import importlib
import math
import pathlib

import jax
import numpy as np

from orbax_files import stored_texts

PACKAGES = {"orbax": "orbax.checkpoint", "holdfast": "holdfast.orbax"}
DTYPES = ("float32", "bfloat16", "int32", "int8", "uint16", "float64", "bool",
          "complex64", "float8_e4m3fn", "int4", "float16", "int64")
AXES = "xyz"


@dataclasses.dataclass(frozen=True)
class ArrayCase:
    """An array that is saved in one sharding and restored in another."""

    values: np.ndarray  # key data for a typed key
    saved: object  # a sharding
    restored: object
    restored_shape: tuple  # if not the saved shape, padded or cut
    chunk_byte_size: int | None
    is_key: bool
    stored_dtype: object | None = None  # the save casts to this dtype


@dataclasses.dataclass(frozen=True)
class Case:
    """A tree, and how it is stored."""

    seed: int
    arrays: dict
    plain: dict  # leaves that are not sharded
    api: str  # "v0", "standard", "v1"
    use_ocdbt: bool
    use_zarr3: bool
    use_replica_parallel: bool
    min_slice_bytes: int | None
    max_replicas: int | None
    separate_folder: bool  # replicated arrays are in a separate database
    primary_host: int


def package(which):
    return importlib.import_module(PACKAGES[which])


def v1_of(which):
    return package(which).v1


def make_case(seed):
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 6))
    arrays = {f"a{i}": _array_case(random) for i in range(count)}
    plain = {}
    if random.random() < 0.5:
        plain["numpy"] = random.integers(0, 99, (3, 4)).astype(np.int32)
    if random.random() < 0.5:
        plain["number"] = int(random.integers(0, 99))
    if random.random() < 0.3:
        plain["text"] = "naïve"
    api = str(random.choice(["v0", "v0", "standard", "v1"]))
    use_ocdbt = bool(random.random() < 0.7)
    if api == "standard":
        plain.pop("text", None)
    return Case(
        seed=seed, arrays=arrays, plain=plain, api=api,
        use_ocdbt=use_ocdbt,
        use_zarr3=bool(random.random() < 0.5) and api != "standard",
        use_replica_parallel=bool(random.random() < 0.7) or api == "standard",
        min_slice_bytes=_sometimes(random, 0.2, [16, 64, 256])
        if api != "standard" else None,
        max_replicas=_sometimes(random, 0.2, [1, 2, 3])
        if api != "standard" else None,
        separate_folder=bool(random.random() < 0.15) and use_ocdbt
        and api != "standard",
        primary_host=int(random.choice([0, 0, 0, 1])) if api == "v0" else 0)


def _sometimes(random, share, values):
    chosen = int(random.choice(values))
    return chosen if random.random() < share else None


def _mesh(random):
    """Draws a mesh of one to three axes over all devices, in any order."""
    devices = np.array(jax.devices())
    if random.random() < 0.5:
        devices = random.permutation(devices)
    sizes = []
    rest = devices.size
    while rest > 1 and len(sizes) < 2:
        divisors = [d for d in range(1, rest + 1) if rest % d == 0]
        size = int(random.choice(divisors))
        sizes.append(size)
        rest //= size
    sizes.append(rest)
    names = tuple(AXES[:len(sizes)])
    return jax.sharding.Mesh(devices.reshape(sizes), names)


def _spec(random, mesh, rank):
    """Draws a spec of `rank` dimensions from some of the mesh's axes."""
    parts = [[] for _ in range(rank)]
    for name in random.permutation(mesh.axis_names):
        if rank and random.random() < 0.6:
            parts[int(random.integers(0, rank))].append(str(name))
    entries = [None if not part else part[0] if len(part) == 1 else tuple(part)
               for part in parts]
    if random.random() < 0.3:
        while entries and entries[-1] is None:
            entries.pop()
    return jax.sharding.PartitionSpec(*entries)


def _sharding(random, rank):
    mesh = _mesh(random)
    return jax.sharding.NamedSharding(mesh, _spec(random, mesh, rank))


def _divisors(sharding, rank):
    sizes = dict(sharding.mesh.shape)
    spec = tuple(sharding.spec) + (None,) * (rank - len(sharding.spec))
    divisors = []
    for entry in spec:
        names = () if entry is None else (
            (entry,) if isinstance(entry, str) else entry)
        divisors.append(math.prod(sizes[name] for name in names))
    return divisors


def _array_case(random):
    rank = int(random.integers(0, 4))
    is_key = random.random() < 0.08
    if is_key:
        rank = 1
    saved, restored = _sharding(random, rank), _sharding(random, rank)
    both = [math.lcm(a, b) for a, b in zip(
        _divisors(saved, rank), _divisors(restored, rank), strict=True)]
    shape = tuple(d * int(random.integers(1, 4)) for d in both)
    restored_shape = shape
    if rank and not is_key and random.random() < 0.2:
        restored_shape = tuple(
            d * int(random.integers(1, 5)) for d in _divisors(restored, rank))
    if is_key:
        data = random.integers(0, 2**32, (*shape, 2), np.uint32)
        return ArrayCase(data, saved, restored, shape, None, True)
    dtype = jax.numpy.dtype(str(random.choice(DTYPES)))
    values = random.integers(-100, 100, shape)
    if dtype.name == "int4":
        values = values % 7
    chunk = _sometimes(random, 0.3, [8, 64, 200])
    stored = None
    if random.random() < 0.15 and dtype.name in ("float32", "int32"):
        stored = jax.numpy.dtype(str(random.choice(["bfloat16", "float64"])))
    return ArrayCase(values.astype(dtype), saved, restored, restored_shape,
                     chunk, False, stored)


def _place(values, sharding):
    return jax.make_array_from_callback(
        values.shape, sharding, lambda index: values[index])


def make_tree(case):
    tree = dict(case.plain)
    for name, array in case.arrays.items():
        placed = _place(array.values, array.saved)
        if array.is_key:
            placed = jax.random.wrap_key_data(placed)
        tree[name] = placed
    return {"params": tree}


def save_args_tree(case, ocp):
    args = {name: ocp.SaveArgs() for name in case.plain}
    for name, array in case.arrays.items():
        args[name] = ocp.SaveArgs(chunk_byte_size=array.chunk_byte_size,
                                  dtype=array.stored_dtype)
    return {"params": args}


def _handler(case, which):
    ocp = package(which)
    handlers = ocp.type_handlers
    if which == "orbax":
        from orbax.checkpoint._src.metadata import array_metadata_store
        store = array_metadata_store.Store()
    else:
        from holdfast.orbax._type_handlers.array_metadata import Store
        store = Store()
    registry = handlers.create_type_handler_registry(
        (int, handlers.ScalarHandler()),
        (np.ndarray, handlers.NumpyHandler()),
        (str, handlers.StringHandler()),
        (jax.Array, handlers.ArrayHandler(
            use_replica_parallel=case.use_replica_parallel,
            min_slice_bytes_for_replica_parallel=case.min_slice_bytes,
            max_replicas_for_replica_parallel=case.max_replicas,
            enable_replica_parallel_separate_folder=case.separate_folder,
            primary_host=case.primary_host,
            array_metadata_store=store)))
    store.set_primary_host(case.primary_host)
    return ocp.PyTreeCheckpointHandler(
        use_ocdbt=case.use_ocdbt, use_zarr3=case.use_zarr3,
        multiprocessing_options=_processes(case, ocp),
        type_handler_registry=registry)


def _processes(case, ocp):
    return ocp.options.MultiprocessingOptions(primary_host=case.primary_host)


def _checkpointer(case, which):
    ocp = package(which)
    return ocp.Checkpointer(
        _handler(case, which), multiprocessing_options=_processes(case, ocp))


def path_of(root, which, seed):
    return pathlib.Path(root) / f"{which}-{seed}"


def _v1_context(case, v1):
    context = v1.Context()
    saving = context.array.saving
    saving.use_ocdbt = case.use_ocdbt
    saving.use_zarr3 = case.use_zarr3
    saving.use_replica_parallel = case.use_replica_parallel
    saving.min_slice_bytes_for_replica_parallel = case.min_slice_bytes
    saving.max_replicas_for_replica_parallel = case.max_replicas
    saving.enable_replica_parallel_separate_folder = case.separate_folder
    storage = saving.StorageOptions

    def options_of(path, value):
        del value
        array = case.arrays.get(str(path[-1].key))
        return None if array is None else storage(
            chunk_byte_size=array.chunk_byte_size, dtype=array.stored_dtype)

    saving.scoped_storage_options_creator = options_of
    context.array.loading.enable_padding_and_truncation = True
    return context


def save(seed, root, which):
    """Saves a case. All processes must call it."""
    case = make_case(seed)
    ocp = package(which)
    tree = make_tree(case)
    path = path_of(root, which, seed)
    if case.api == "v1":
        v1 = v1_of(which)
        with _v1_context(case, v1):
            v1.save(path, tree)
    elif case.api == "standard":
        with ocp.StandardCheckpointer(use_ocdbt=case.use_ocdbt) as ckptr:
            ckptr.save(path, tree, save_args=save_args_tree(case, ocp))
            ckptr.wait_until_finished()
    else:
        with _checkpointer(case, which) as ckptr:
            ckptr.save(path, args=ocp.args.PyTreeSave(
                tree, save_args_tree(case, ocp)))
    return repr((case.api, case.use_ocdbt, case.use_zarr3))


def _abstract(array):
    if array.is_key:
        shape, dtype = array.values.shape[:-1], jax.random.key(0).dtype
    else:
        shape, dtype = array.restored_shape, array.values.dtype
    return jax.ShapeDtypeStruct(shape, dtype, sharding=array.restored)


def _restore_args(array, ocp):
    if array.is_key:
        return ocp.ArrayRestoreArgs(sharding=array.restored)
    return ocp.ArrayRestoreArgs(
        sharding=array.restored, global_shape=array.restored_shape,
        dtype=array.values.dtype, strict=False)


def _restored(case, path, which):
    ocp = package(which)
    if case.api == "v1":
        v1 = v1_of(which)
        abstract = dict(case.plain)
        abstract |= {n: _abstract(a) for n, a in case.arrays.items()}
        with _v1_context(case, v1):
            return v1.load(path, {"params": abstract})
    args = {name: ocp.RestoreArgs() for name in case.plain}
    args |= {n: _restore_args(a, ocp) for n, a in case.arrays.items()}
    with _checkpointer(case, which) as ckptr:
        return ckptr.restore(path, args=ocp.args.PyTreeRestore(
            restore_args={"params": args}))


def restore(seed, root, writer, reader):
    """Restores with `reader` what `writer` saved; returns the problems."""
    case = make_case(seed)
    tree = _restored(case, path_of(root, writer, seed), reader)["params"]
    problems = []
    for name, want in case.plain.items():
        same = np.array_equal(tree[name], want) and (
            type(tree[name]) is type(want))
        if not same:
            problems.append(f"{name}: {tree[name]!r}, want {want!r}")
    for name, array in case.arrays.items():
        problem = _array_problem(array, tree[name])
        if problem:
            problems.append(f"{name}: {problem}")
    return problems


def _array_problem(array, got):
    want = array.values
    if array.is_key:
        if not got.sharding.is_equivalent_to(array.restored, got.ndim):
            return f"key sharding {got.sharding}, want {array.restored}"
        got = jax.random.key_data(got)
    else:
        want = np.zeros(array.restored_shape, array.values.dtype)
        common = tuple(map(slice, map(min, zip(
            array.values.shape, array.restored_shape, strict=True))))
        want[common] = array.values[common]
        if got.sharding != array.restored:
            return f"sharding {got.sharding}, want {array.restored}"
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape}, want {want.dtype}{want.shape}"
    for shard in got.addressable_shards:
        mine = np.asarray(shard.data)
        if mine.tobytes() != np.ascontiguousarray(want[shard.index]).tobytes():
            return f"values at {shard.index}"
    return None


def compare(seed, root):
    """Returns the differences between the packages' files, except for data."""
    case = make_case(seed)
    items = [path_of(root, which, seed) / ("state" if case.api == "v1" else "")
             for which in ("orbax", "holdfast")]
    want, got = (stored_texts(item, case.use_ocdbt) for item in items)
    problems = []
    for name in sorted(want.keys() | got.keys()):
        if want.get(name) != got.get(name):
            problems.append(f"{name}: {got.get(name)!r}, want "
                            f"{want.get(name)!r}"[:900])
    return problems
