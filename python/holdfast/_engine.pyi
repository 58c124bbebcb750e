"""The compiled engine: holdfast's C++ calls with Python objects at the edges.

Not public; `holdfast` and `holdfast.orbax` are. Calls that work on files
release the GIL, poll for signals (KeyboardInterrupt cancels the work within a
moment and leaves nothing half-committed) and raise the classes of
`holdfast.errors`.

A docstring that begins with a C++ name means that the call or class wraps it;
the C++ header has the contract.
"""

from collections.abc import Callable, Container, Sequence
from typing import Any, Protocol, TypedDict

import numpy as np
import numpy.typing as npt
from typing_extensions import Unpack

# Gets the phase ("plan", "write", "read", "sync", "verify", "commit"), the
# bytes done and the total bytes. Called on the thread that made the engine
# call.
ProgressFn = Callable[[str, int, int], object]

class Stats:
    """`holdfast::Stats`: seconds of each phase, and counts of bytes."""

    plan_seconds: float
    transfer_seconds: float
    sync_seconds: float
    commit_seconds: float
    total_seconds: float
    decoded_bytes: int
    stored_bytes: int
    chunk_count: int
    memory_bytes_peak: int
    mapped_bytes: int
    fingerprint_count: int
    device_decoded_bytes: int

    def __init__(self) -> None: ...

class DeviceArray:
    """An array in the memory of a CUDA device, for the shards of an ArrayLeaf.

    `address` may be a function, which is called when the first element is
    needed. `check` is called after each read of elements, and raises if they
    were not valid any more. `owner` keeps the memory. Elements are read once
    the work that was queued on `stream` (a CUstream) is done.
    """

    def __init__(
        self,
        shape: Sequence[int],
        dtype: np.dtype[Any],
        address: int | Callable[[], int],
        *,
        strides: Sequence[int] | None = None,  # in bytes; None: C order
        stream: int = 0,
        owner: object = None,
        check: Callable[[], None] | None = None,
    ) -> None: ...
    def part(self, origin: Sequence[int], shape: Sequence[int]) -> DeviceArray:
        """Returns the box of elements at `origin`."""

    @property
    def shape(self) -> tuple[int, ...]: ...

def set_nvrtc_path(path: str) -> None:
    """`holdfast::SetNvrtcPath`."""

def device_problem() -> str:
    """`holdfast::CheckDeviceDriver`: why devices cannot be used, or ""."""

def available_host_bytes() -> int:
    """`holdfast::AvailableHostMemoryBytes`."""

class ArrayLeaf:
    """An array for `adapt` to return, such as the shards of a jax.Array.

    `shards` are pairs of an origin (in elements) and an array. Together they
    cover `shape` exactly once; a single shard may be the complete array. With
    `dtype`, they are only this process's shards of an array that several
    processes save, and there may be none. The arrays are borrowed, so they must
    not change while a tree that contains this leaf is being saved.
    """

    def __init__(
        self,
        shape: Sequence[int],
        shards: Sequence[tuple[Sequence[int], npt.NDArray[Any] | DeviceArray]],
        *,
        kind: str = "jax",  # the value type to record: "jax" or "numpy"
        immutable: bool = True,  # a snapshot need not copy the array
        sharding_json: str | None = None,  # None: no entry in `_sharding`
        prng_impl: str | None = None,
        write_shape: Sequence[int] | None = None,
        # If given, other processes write the remaining shards.
        dtype: np.dtype[Any] | None = None,
    ) -> None: ...

class Node:
    """A container other than a dict, list or tuple. Its keys keep their order.

    `kind` is "attributes" (keys are recorded like dict keys) or "sequence"
    (keys are ignored, and indices are recorded). A node without children is
    recorded as None if its kind is "attributes", and otherwise as `Tuple`.
    """

    def __init__(
        self,
        kind: str,
        keys: Sequence[Any],
        children: Sequence[Any],
    ) -> None: ...

class ExternalLeaf:
    """A leaf that a type handler stores; only its value type is recorded."""

    value_type: str

    def __init__(self, value_type: str) -> None: ...

class Tree:
    """A tree to save. Keeps references to the objects whose memory it uses."""

    leaf_count: int
    byte_count: int  # decoded bytes of all arrays and scalars
    copied_bytes: int  # bytes that the snapshot copied
    item_documents: str  # a JSON object, or empty

def build_tree(
    tree: Any,
    *,
    adapt: Callable[[Any, tuple[Any, ...]], Any],
    snapshot: bool = False,
    strings: bool = True,
    int_keys: bool = False,
) -> Tree:
    """Builds a Tree from a pytree of dict, list, tuple, namedtuple, None, numpy
    arrays and scalars, bool, int, float, complex, str, bytes and Ellipsis.

    For any other object, calls `adapt(object, path)`, which must return an
    ArrayLeaf, a Node, or an object of the kinds above, or raise. `path` is the
    tuple of keys that leads to the object. With `snapshot`, every array that
    may change is copied, with all threads, before the call returns. Dicts are
    sorted by key as JAX sorts them. Keys become strings with str(); with
    `int_keys`, integers stay integers.

    Raises ValueError, naming the leaf, for anything that cannot be saved: a
    tree that contains itself, keys that do not compare ("Comparator raised
    exception while sorting pytree dictionary keys."), dtypes without a stored
    form ('Error parsing object member "dtype": Unsupported data type:
    "str64"'), ints beyond int64.
    """

class Transport(Protocol):
    """Carries a group's messages. The engine calls it on its own thread.

    `receive` returns None if no message comes within `timeout_seconds`; 0 only
    looks. No two messages between the same two ranks have the same topic.
    """

    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    def send(self, to: int, topic: str, message: bytes, /) -> None: ...
    def receive(
        self, from_: int, topic: str, timeout_seconds: float, /
    ) -> bytes | None: ...

class ProcessGroup:
    """`holdfast::ProcessGroup`; one call at a time. If the transport raises an
    exception, the call fails with this exception."""

    rank: int
    size: int

    def __init__(
        self,
        transport: Transport,
        *,
        timeout_seconds: float = 600,
        name: str = "holdfast",
        first_call: int = 0,
        may_follow: bool = True,
        members: Sequence[int] = (),  # ranks of the transport; (): all
    ) -> None: ...
    # The number of the running call, or if no call is running, of the next.
    @property
    def call_number(self) -> int: ...
    # The ranks that failed the running or the last call, ascending, in the
    # transport's numbering.
    @property
    def failed_ranks(self) -> list[int]: ...
    # Begins a call. All exchanges (agree, all_gather, broadcast) until end_call
    # belong to it; if one of them fails, the call fails on all ranks.
    def begin_call(self) -> None: ...
    # Reports `error` to ranks that do not know it yet. Raises nothing.
    def end_call(
        self,
        error: BaseException | None = None,
        *,
        wait_seconds_max: float = ...,
    ) -> None: ...
    # Waits for all ranks. Raises on every rank unless `error` is None on all.
    def agree(
        self, phase: str, file: str = "", error: BaseException | None = None
    ) -> None: ...
    def all_gather(
        self,
        phase: str,
        file: str,
        value: bytes,
        timeout_seconds: float | None = None,  # None: as for the group
    ) -> list[bytes]: ...
    def broadcast(
        self, phase: str, file: str, root: int, value: bytes
    ) -> bytes: ...

def thread_groups(
    size: int, *, timeout_seconds: float = 600, name: str = "holdfast"
) -> list[ProcessGroup]:
    """Returns one group for each rank. The ranks are threads of this
    process."""

class SaveItemOptions(TypedDict, total=False):
    """Options of every call that saves an item.

    The comments give the defaults. `save_args` maps a name to (dtype name,
    chunk_byte_size, shard_axes), or to these three followed by
    (write_chunk_shape, read_chunk_shape).
    """

    zarr_format: int  # 2; in `save` 0, which means the format's default
    use_ocdbt: bool  # True
    compression: str | None  # "zstd"; in `save` "planes"; also "fast", None
    chunk_bytes: int  # 0 (one chunk per shard); in `save` 8 MiB
    ocdbt_target_data_file_bytes: int  # 2 GiB
    item_custom_metadata: str
    item_documents: str
    save_args: dict[str, tuple[Any, ...]]
    write_digests: bool  # True
    sync: bool  # True
    threads: int
    memory_bytes: int  # 256 MiB
    progress: ProgressFn | None
    support_rich_types: bool  # False
    adopt_existing: bool  # False; True keeps files that type handlers wrote
    # Orbax's option: whether to compress, or the codec's name. Replaces
    # `compression` and `chunk_bytes`.
    use_compression: bool | str | None
    fingerprints: bool  # False

def save(
    path: str,
    tree: Tree,
    *,
    format: str = "orbax",  # "orbax", "orbax-v1"
    overwrite: bool = False,
    custom_metadata: str = "",
    checkpointable_name: str = "state",
    also: str | None = None,  # "safetensors"
    also_shard_bytes_max: int = 0,  # 0: the format's default
    group: ProcessGroup | None = None,
    base: str | None = None,
    anchor_every: int | None = None,
    **options: Unpack[SaveItemOptions],
) -> Stats:
    """`holdfast::Save`; with `base`, `holdfast::SaveDelta`; with
    `anchor_every`, `holdfast::SaveInChain`, which warns if it wrote a full step
    because the base is damaged."""

def fingerprints(tree: Tree) -> dict[str, str]:
    """`holdfast::FingerprintsOf`."""

def check_replicas(
    tree: Tree, *, group: ProcessGroup | None = None
) -> tuple[int, int, int]:
    """`holdfast::CompareReplicas`; raises if replicas differ.

    Returns box_count, replica_count and compared_count."""

def save_item(
    directory: str,
    tree: Tree,
    *,
    anchor_every: int | None = None,  # set: `holdfast::SaveItemInChain`
    **options: Unpack[SaveItemOptions],
) -> Stats:
    """`holdfast::SaveItem`: writes a pytree item without committing it."""

def save_item_part(
    directory: str,
    tree: Tree,
    *,
    rank: int,
    is_primary: bool,
    id: str = "",  # names its database; empty: the rank
    save_id: str = "",  # the same on all processes of one save
    **options: Unpack[SaveItemOptions],
) -> Stats:
    """`holdfast::SaveItemPart`: writes one process's part of an item."""

def finish_item(
    directory: str,
    *,
    ranks: Sequence[int],
    save_id: str = "",
    use_ocdbt: bool = True,
    sync: bool = True,
    write_digests: bool = True,
    adopt_existing: bool = False,
    is_partial: bool = False,
    has_own_trees: bool = False,  # only the primary's tree has all leaves
) -> None:
    """`holdfast::FinishItem`: makes one item from the parts of `ranks`."""

def is_own_document(name: str) -> bool: ...
def merge_process_databases(
    directory: str, *, enable_validation: bool = False
) -> None:
    """`holdfast::MergeOcdbtPerProcessFiles`."""

def write_params(
    directory: str,
    tree: Tree,  # a dict, parameter name -> array
    *,
    use_ocdbt: bool,
    use_zarr3: bool,
    use_compression: bool,
    ocdbt_target_data_file_size: int | None,
    save_args: dict[str, tuple[Any, ...]],
    metadata_key: str | None,
    process_id: str,
    is_replica: bool,  # write to `ocdbt.process_replica_<id>`
    is_partial: bool,  # other processes write the rest
    is_primary: bool,
) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """`holdfast::WriteParams`: returns (name, write_shape, chunk_shape) for
    each parameter."""

# (param_name, write_shape, chunk_shape, JSON text of ext_metadata)
_MetadataRow = tuple[str, tuple[int, ...], tuple[int, ...], str]

def add_array_metadatas(
    directory: str, process: int, rows: Sequence[_MetadataRow]
) -> None:
    """`holdfast::AddArrayMetadatas`."""

def read_array_metadatas(directory: str) -> dict[int, list[_MetadataRow]]:
    """`holdfast::ReadArrayMetadatas`: returns the rows by process."""

def validate_array_metadatas(
    rows: dict[int, list[_MetadataRow]], *, process_count: int, reference: int
) -> None:
    """`holdfast::ValidateAllArrayMetadatas`."""

def recorded_shardings(directory: str) -> dict[str, str] | None:
    """`holdfast::RecordedShardings`: returns JSON strings by parameter
    name."""

def record_shardings(directory: str, shardings: dict[str, str]) -> None:
    """`holdfast::RecordShardings`."""

def check_restore_shape(
    wanted: Sequence[int],
    stored: Sequence[int],
    strict: bool,
    origin: Sequence[int],
    extents: Sequence[int],
) -> None:
    """`holdfast::CheckRestoreShape`."""

def explain_missing_array(
    directory: str,
    name: str,
    metadata_key: str,
    use_ocdbt: bool | None,
    problem: Exception | None,
) -> None:
    """`holdfast::ExplainMissingArray`: raises Orbax's error, or nothing if
    `problem` is the better message."""

def serialize_strings(
    filename: str, params: Sequence[tuple[str, str]], texts: Sequence[str]
) -> None:
    """`holdfast::StringHandler::Serialize`; `params` are (directory, name)."""

def deserialize_strings(
    filename: str, params: Sequence[tuple[str, str]]
) -> list[str]:
    """`holdfast::StringHandler::Deserialize`."""

def check_partial_save_keys(
    session: str, keys: Sequence[Sequence[str]]
) -> None:
    """`holdfast::CheckPartialSaveKeys`."""

def prepare_partial_save(part: str) -> None:
    """`holdfast::PreparePartialSave`."""

def finalize_partial_save(session: str, path: str) -> None:
    """`holdfast::FinalizePartialSave`."""

def open_stored_arrays(
    directory: str,
    names: Sequence[str],
    *,
    use_ocdbt: bool,
    metadata_key: str,
    raise_array_data_missing_error: bool,
) -> Checkpoint:
    """`holdfast::OpenStoredArrays`: returns one leaf for each name."""

def write_aggregate(path: str, tree: Tree) -> None:
    """`holdfast::MsgpackHandler::Serialize`: writes a tree as one msgpack
    file."""

def read_aggregate(path: str) -> Any:
    """`holdfast::MsgpackHandler::Deserialize`. A value that is stored elsewhere
    becomes the string "PLACEHOLDER://name"."""

class MsgpackExtension:
    """A value of an application-defined msgpack type; `code` is 0 to 127."""

    def __init__(self, code: int, data: bytes) -> None: ...

def msgpack_pack(value: Any, default: Callable[[Any], Any]) -> bytes:
    """Returns a value in msgpack format.

    None, bool, int, float, str, bytes, list, dict and MsgpackExtension are
    packed directly, but not their subclasses. `default` converts any other
    value to one of these classes."""

def msgpack_unpack(
    data: bytes,
    extension: Callable[[int, bytes], Any],
    *,
    texts_are_bytes: bool = False,
) -> Any:
    """Returns the value of msgpack data. Calls `extension(code, data)` for each
    extension value."""

class PendingSave:
    """`holdfast::PendingSave`. A context manager: leaving it without commit()
    removes the temporary directory."""

    directory: str  # absolute; "<path>.orbax-checkpoint-tmp" or `path`

    # has_marker: write at the final path, and `commit_success.txt` last; None
    #   does so only if the storage cannot rename directories.
    # directory_mode: permissions of new directories.
    def __init__(
        self,
        path: str,
        *,
        overwrite: bool = False,
        sync: bool = True,
        write_digests: bool = True,
        has_marker: bool | None = None,
        directory_mode: int | None = None,
        takes_empty_directory: bool = False,
        keeps_other_files: bool = False,
    ) -> None: ...
    # Relies on the digests of an item that is already in `directory`.
    def adopt_item(self, name: str = "") -> None: ...
    # Does what the module's save_item does, in directory/name.
    def save_item(
        self, name: str, tree: Tree, **options: Unpack[SaveItemOptions]
    ) -> Stats: ...
    def write_file(self, name: str, content: bytes) -> None: ...
    def commit(
        self,
        *,
        item_handlers_json: str = "null",
        custom_metadata: str = "",
        is_v1: bool = False,
    ) -> None: ...
    # Removes the temporary directory; does nothing after commit().
    def discard(self) -> None: ...
    def __enter__(self) -> PendingSave: ...
    def __exit__(self, *args: object) -> None: ...

def load(
    path: str,
    *,
    step: int | None = None,
    item: str = "",
    names: Sequence[str] = (),
    missing_chunks: str = "as_recorded",  # "as_recorded", "refuse", "fill"
    verify: bool = True,
    map: str = "never",  # "where_possible", "required"
    copy_on_write: bool = False,
    verify_mapped: bool = False,
    fingerprints: bool = False,
    threads: int = 0,
    memory_bytes: int = 256 << 20,
    progress: ProgressFn | None = None,
) -> tuple[Any, Stats, list[str]]:
    """`holdfast::Load`: returns the tree, stats and notes.

    Arrays are numpy arrays that own the engine's memory. Other leaves are
    Python scalars, strings, None, empty containers and Ellipsis."""

class LeafInfo:
    """`holdfast::LeafInfo`. Attributes only."""

    name: str
    key: tuple[str, ...]
    key_is_sequence: tuple[bool, ...]
    kind: str  # "array", "scalar", "string", "bytes", "none", "empty_dict", ...
    value_type: str
    prng_impl: str
    dtype: str | None
    shape: tuple[int, ...]
    chunk_shape: tuple[int, ...]
    codecs: str
    chunk_count: int
    stored_bytes: int
    decoded_bytes: int
    skip_deserialize: bool
    write_shape: tuple[int, ...] | None
    sharding_json: str
    array_metadata: str
    fingerprint: str  # empty if not stored or not requested
    problem: Exception | None  # the error that reading the leaf raises

class Checkpoint:
    """`holdfast::Checkpoint`; opening it reads only metadata."""

    path: str  # absolute, after choosing the step
    format: str
    bases: list[str]
    sources: list[str]
    notes: list[str]
    step: int | None
    items: dict[str, str]
    use_ocdbt: bool
    zarr_format: int
    custom_metadata: str
    checkpoint_metadata: str
    item_custom_metadata: str
    item_documents: str
    value_metadata_tree: str
    has_tree_metadata: bool
    use_zarr3: bool
    store_array_data_equal_to_fill_value: bool
    init_timestamp_ns: int | None
    commit_timestamp_ns: int | None
    leaves: list[LeafInfo]  # built on first use

    def __init__(
        self,
        path: str,
        *,
        step: int | None = None,
        item: str = "",
        missing_chunks: str = "as_recorded",
        verify: bool = True,
        stored_sizes: bool = False,
        aggregate_filename: str = "checkpoint",
        use_sidecar: bool = True,
        fingerprints: bool = False,
    ) -> None: ...
    # The names in `leaves`; does not build `leaves`.
    @property
    def leaf_names(self) -> list[str]: ...
    # Raises NotFoundError for a name that selects no leaf, as the module's
    # `load` does.
    def check_names(self, names: Sequence[str]) -> None: ...
    @property
    def value_types(self) -> set[tuple[str, bool]]: ...
    # Returns the leaves as tuples (name, key, layout, sharding_json,
    # has_problem). A layout is (value_type, skip_deserialize, dtype, shape,
    # chunk_shape, write_shape, array_metadata). Consecutive leaves with equal
    # layouts share one tuple.
    def leaf_rows(self) -> list[tuple[Any, ...]]: ...
    # Returns the same tree as the module's `load`, without opening the
    # checkpoint again.
    def load(
        self,
        *,
        threads: int = 0,
        memory_bytes: int = 256 << 20,
        progress: ProgressFn | None = None,
    ) -> Any: ...
    # Reads complete arrays in one pass. A request is (leaf, dtype); None means
    # the stored dtype.
    def read_leaves(
        self,
        requests: Sequence[tuple[int, np.dtype[Any] | None]],
        *,
        threads: int = 0,
        memory_bytes: int = 256 << 20,
        progress: ProgressFn | None = None,
    ) -> list[npt.NDArray[Any]]: ...
    # Returns the tree with each leaf replaced by its index in `leaves`; empty
    # containers stay as they are.
    def structure(self) -> Any: ...
    # Returns `values`, one per leaf, as a tree of dicts and lists. With
    # `namedtuple_of`, which returns the class for (module, name, fields), the
    # tree has the containers of `value_metadata_tree`.
    def nest(
        self,
        values: list[Any],
        namedtuple_of: Callable[[str, str, tuple[str, ...]], Any] | None = None,
    ) -> Any: ...
    # Returns the complete leaf: a numpy array, a Python scalar, str, bytes (for
    # an object, its torch.save file), None, {}, ...
    def read(self, leaf: int) -> Any: ...
    # Returns the box at `origin` as a numpy array of `shape` in the stored
    # dtype.
    def read_box(
        self, leaf: int, origin: Sequence[int], shape: Sequence[int]
    ) -> npt.NDArray[Any]: ...
    # `holdfast::MapTensors`: returns for each leaf the mapped array, read-only
    # unless copy_on_write, or the reason why the leaf cannot be mapped.
    def map(
        self,
        leaves: Sequence[int],
        *,
        copy_on_write: bool = False,
        verify: bool = False,
    ) -> list[npt.NDArray[Any] | str]: ...
    # Fills writable numpy arrays, casting to their dtypes, in one parallel
    # pass that reads each stored chunk once. A request is (leaf, origin,
    # target).
    def read_into(
        self,
        requests: Sequence[
            tuple[int, Sequence[int], npt.NDArray[Any] | DeviceArray]
        ],
        *,
        threads: int = 0,
        memory_bytes: int = 256 << 20,
        progress: ProgressFn | None = None,
    ) -> Stats: ...
    # `holdfast::ReadTogether`: returns a new array for each request, which is
    # (leaf, origin, shape, dtype); None means the stored dtype. The ranks of a
    # host share the arrays' memory. All ranks of the group must make the call.
    def read_together(
        self,
        requests: Sequence[
            tuple[int, Sequence[int], Sequence[int], np.dtype[Any] | None]
        ],
        group: ProcessGroup,
        *,
        threads: int = 0,
        memory_bytes: int = 256 << 20,
        progress: ProgressFn | None = None,
    ) -> tuple[list[npt.NDArray[Any]], Stats]: ...
    # Returns the lower-case hex sha256 of the leaf's value.
    def digest(self, leaf: int) -> str: ...

class Damage:
    leaf: str
    file: str
    offset: int | None
    message: str
    code: str  # "DATA_LOSS", ...

def verify(
    path: str,
    *,
    step: int | None = None,
    item: str = "",
    threads: int = 0,
    memory_bytes: int = 256 << 20,
    progress: ProgressFn | None = None,
) -> tuple[list[Damage], list[Damage], list[str], int, Stats]:
    """`holdfast::Verify`: returns damages, leaves that are not supported,
    notes, the leaf count and stats."""

def convert(
    source: str,
    target: str,
    *,
    format: str | None = None,
    step: int | None = None,
    item: str = "",
    names: list[str] = ...,
    select: list[str] = ...,
    drop: list[str] = ...,
    rename: list[tuple[str, str, bool]] = ...,
    cast: list[tuple[str, str]] = ...,
    shards: list[tuple[str, list[int]]] = ...,
    nest: bool = False,
    strict: bool = False,
    recipe_name: str | None = None,
    recipe_text: str | None = None,
    reverse: bool = False,
    sizes: dict[str, int] = ...,
    zarr_format: int | None = None,
    use_ocdbt: bool | None = None,
    compression: str | None = "zstd",
    chunk_bytes: int = 8 << 20,
    shard_bytes_max: int = 0,
    also: str | None = None,
    overwrite: bool = False,
    restart: bool = False,
    check: bool = True,
    sync: bool = True,
    threads: int = 0,
    memory_bytes: int = 256 << 20,
    progress: ProgressFn | None = None,
) -> dict[str, Any]:
    """`holdfast::Convert`: returns its counts, and its report as JSON."""

def recipe_names() -> list[str]: ...
def materialize(
    view: str,
    target: str | None,
    *,
    step: int | None = None,
    zarr_format: int | None = None,
    use_ocdbt: bool | None = None,
    compression: str | None = "zstd",
    chunk_bytes: int = 8 << 20,
    overwrite: bool = False,
    restart: bool = False,
    check: bool = True,
    sync: bool = True,
    threads: int = 0,
    memory_bytes: int = 256 << 20,
    progress: ProgressFn | None = None,
) -> dict[str, Any]:
    """`holdfast::Materialize`: returns its counts, and its report as JSON."""

def view(
    source: str,
    target: str,
    *,
    format: str = "orbax",
    step: int | None = None,
    item: str = "",
    select: list[str] = ...,
    drop: list[str] = ...,
    rename: list[tuple[str, str, bool]] = ...,
    cast: list[tuple[str, str]] = ...,
    nest: bool = False,
    strict: bool = False,
    recipe_name: str | None = None,
    recipe_text: str | None = None,
    reverse: bool = False,
    sizes: dict[str, int] = ...,
    zarr_format: int = 3,
    link: str = "symlink",
    checksums: bool = False,
    must_refer: bool = False,
    compression: str | None = "zstd",
    chunk_bytes: int = 8 << 20,
    overwrite: bool = False,
    sync: bool = True,
    threads: int = 0,
    memory_bytes: int = 256 << 20,
    progress: ProgressFn | None = None,
) -> dict[str, Any]:
    """`holdfast::View`: returns its counts, and its report as JSON."""

class StepInfo:
    """`holdfast::StepInfo`, a step directory of a manager root."""

    name: str
    step: int | None
    path: str
    committed: bool
    why_not: str  # empty when committed
    damage: str  # what a committed step lacks; empty if nothing
    commit_timestamp_ns: int | None
    bytes: int  # size of all files below `path`
    items: list[str]
    metrics: str  # JSON text, or empty

def list_steps(root: str) -> list[StepInfo]:
    """`holdfast::ListSteps`: returns the steps in ascending order, and then the
    temporary directories."""

def scan_steps(
    root: str,
    *,
    step_prefix: str | None = None,
    step_format_fixed_length: int | None = None,
    any_format: bool = False,
    commit_mode: str = "auto",
    allow_legacy_atomic_rename: bool = False,
    include_uncommitted: bool = False,
    read_metadata: bool = True,
    threads: int = 0,
) -> list[tuple[int, str, bool, int, str | None]]:
    """`holdfast::ScanSteps`: returns the steps in `root`, in ascending order.

    A row is (step, name of its directory, whether it is committed, commit time
    in nanoseconds since 1970, text of its metrics). If no commit time is
    recorded, it is the directory's time, rounded to whole seconds. Without
    `read_metadata` no file is opened, and all times are 0. Damaged metrics are
    None. `commit_mode` is a value of AtomicityMode. The list is empty if `root`
    does not exist.
    """

def check_may_hold_steps(root: str) -> None:
    """`holdfast::CheckMayHoldSteps`; raises InvalidArgumentError."""

def describe_steps(
    paths: list[str],
) -> list[tuple[int, str, bool, int, str | None]]:
    """`holdfast::DescribeSteps`: returns rows like those of `scan_steps`, with
    paths instead of names.

    Steps that no longer exist are left out.
    """

def is_path_finalized(
    path: str,
    *,
    commit_mode: str = "auto",
    allow_legacy_atomic_rename: bool = False,
) -> bool:
    """`holdfast::CheckPathFinalized`: returns whether `path` is a committed
    checkpoint."""

def is_path_temporary(
    path: str,
    *,
    commit_mode: str = "auto",
    allow_legacy_atomic_rename: bool = False,
) -> bool:
    """`holdfast::CheckPathTemporary`: returns whether `path` was never
    committed."""

def temporary_names(
    root: str,
    *,
    commit_mode: str = "auto",
    allow_legacy_atomic_rename: bool = False,
) -> list[str]:
    """`holdfast::TemporaryCheckpointNames`: returns the names of directories
    that were never committed."""

def step_from_checkpoint_name(name: str) -> int:
    """`holdfast::StepFromCheckpointName`.

    Raises:
        InvalidArgumentError: `name` contains no step number.
    """

def check_newest_step(
    root: str,
    newest: tuple[int, str],
    met: str,
    others: list[tuple[int, str]],
) -> None:
    """`holdfast::CheckNewestStep`; a step is (number, name of its directory).

    Raises:
        DataLossError: the newest step is damaged; the error names the newest
            intact step.
    """

class KeepRule:
    """`holdfast::PreservationPolicy`: decides which steps are kept."""

    @staticmethod
    def all() -> KeepRule: ...
    @staticmethod
    def latest(n: int | None) -> KeepRule: ...
    @staticmethod
    def seconds_apart(seconds: float) -> KeepRule: ...
    @staticmethod
    def steps_apart(
        steps: int, exact: bool, max_to_keep: int | None
    ) -> KeepRule: ...
    @staticmethod
    def closest_to_multiples(
        steps: int, max_to_keep: int | None
    ) -> KeepRule: ...
    @staticmethod
    def named(steps: list[int]) -> KeepRule: ...
    # `metric_of` returns the sort key of a step's metrics; Python compares the
    # keys.
    @staticmethod
    def best(
        metric_of: Callable[[Any], Any],
        reverse: bool,
        n: int | None,
        keep_checkpoints_without_metrics: bool,
    ) -> KeepRule: ...
    @staticmethod
    def younger_than(seconds: float) -> KeepRule: ...
    # Returns the rule for a manager's older options. Raises
    # InvalidArgumentError if the options also have a `preservation_policy`.
    @staticmethod
    def of_options(options: Any) -> KeepRule: ...
    # Each checkpoint has `step`, `time` and `metrics`. `time` and `metrics` are
    # read only if the rule needs them.
    def should_preserve(self, checkpoints: Sequence[Any]) -> list[bool]: ...

def best_by_metric(
    checkpoints: Sequence[Any],
    metric_of: Callable[[Any], Any],
    reverse: bool,
) -> int | None:
    """Returns the index of the best checkpoint, or None if no metric is a
    number."""

def check_manager_options(
    options: Any, warn: Callable[[str], object]
) -> dict[str, Any]:
    """`holdfast::CheckedManagerOptions` for Python's options. Returns the
    members that `read_only` changes, with their new values."""

class SaveRule:
    """`holdfast::SaveDecisionPolicy`: decides whether a step is saved."""

    @staticmethod
    def multiples(interval: int) -> SaveRule: ...
    @staticmethod
    def among(steps: Container[int]) -> SaveRule: ...
    @staticmethod
    def continuous(minimum_interval_secs: float | None) -> SaveRule: ...
    @staticmethod
    def preemption() -> SaveRule: ...
    @staticmethod
    def initial() -> SaveRule: ...
    # Calls `function` with the step and the previous step or None.
    @staticmethod
    def function(function: Callable[[int, int | None], Any]) -> SaveRule: ...
    # Returns the rule for a manager's older options.
    @staticmethod
    def of_options(options: Any) -> SaveRule: ...
    def should_save(
        self, step: Any, previous_steps: Sequence[Any], context: Any
    ) -> bool: ...

def dispose_of_steps(
    root: str,
    names: list[str],
    *,
    todelete_subdir: str | None = None,
    todelete_full_path: str | None = None,
) -> tuple[list[str], list[str]]:
    """`holdfast::DisposeOfSteps`: makes the steps disappear from `root`.

    Returns the paths that `remove_trashed` must still delete, and the names of
    steps that stay because other steps refer to them.
    """

def disposal_leftovers(root: str) -> list[str]:
    """`holdfast::DisposalLeftovers`: returns paths for `remove_trashed` that
    programs have left because they ended too early."""

# ---- object stores: `holdfast/tools/remote.h`; the names are the same

def remote_settings() -> dict[str, Any]: ...
def set_remote_settings(values: dict[str, Any]) -> None: ...
def remote_counters() -> dict[str, int]: ...
def metrics() -> dict[str, float]: ...
def metrics_text() -> str: ...
def crash_mark(text: str, /) -> None: ...
def set_libcurl_path(path: str) -> None:
    """Sets the path of the libcurl to load if the system has none."""

# ---- places: `holdfast/tools/places.h`

class PlaceReader:
    """`holdfast::PlaceReader`: reads one version of a file, in pieces."""

    @property
    def byte_count(self) -> int: ...
    def read(self, offset: int, byte_count: int) -> bytes: ...

class PlaceWriter:
    """`holdfast::PlaceWriter`: writes a file, which finish() makes appear
    complete."""

    def append(self, piece: bytes) -> None: ...
    def finish(self) -> None: ...

def open_place_reader(path: str) -> PlaceReader: ...
def open_place_writer(path: str) -> PlaceWriter: ...

# Returns (kind, bytes, modification time). The kind is 0 for a missing file, 1
# for a file, 2 for a directory and 3 for anything else. The time is in
# nanoseconds since 1970; 0 if it is not known.
def stat_place(path: str) -> tuple[int, int, int]: ...
def list_place(path: str) -> list[tuple[str, tuple[int, int, int]]]: ...
def read_place(path: str) -> bytes: ...
def read_checked_file(path: str) -> bytes: ...
def find_item_deletion(path: str) -> str | None:
    """`holdfast::FindItemDeletion`: returns the item that is being deleted, or
    None.

    Raises:
        FailedPreconditionError: the record of the deletion is invalid.
    """

def begin_item_deletion(path: str, item: str, mode: int | None) -> None:
    """`holdfast::BeginItemDeletion`: hides the item from readers."""

def finish_item_deletion(path: str) -> None:
    """`holdfast::FinishItemDeletion`: removes the item's files."""

def check_deletable_item(item: str) -> None:
    """`holdfast::CheckDeletableItem`.

    Raises:
        InvalidArgumentError: a user's item cannot have this name.
    """

def check_deletable_path(path: str) -> None:
    """`holdfast::CheckDeletablePath`."""

def check_deletable_checkpoint(path: str) -> None:
    """`holdfast::CheckDeletableCheckpoint`."""

def check_deletable_item_of(path: str, item: str) -> None:
    """`holdfast::CheckDeletableItemOf`."""

def write_place(
    path: str, content: bytes, *, must_create: bool = False
) -> None: ...
def remove_place_file(path: str) -> None: ...
def remove_place_tree(path: str) -> None: ...
def copy_place_file(source: str, target: str) -> None: ...
def sync_place_directory(path: str) -> None:
    """`holdfast::SyncPlaceDirectory`; does nothing if the storage has no such
    sync."""

def is_nobodys_name(name: str, *, is_directory: bool) -> bool:
    """`holdfast::IsNobodysName`: True for names of files that systems create:
    ".DS_Store", "._x", ".nfs0123"."""

def rename_place(source: str, target: str, *, is_directory: bool) -> None: ...
class SaveLock:
    """`holdfast::SaveLock`; released when the object is deleted."""

    def release(self) -> None: ...

def take_save_lock(path: str) -> SaveLock:
    """`holdfast::SaveLock::Take`."""

def create_snapshot(source: str, snapshot: str) -> None:
    """`holdfast::CreateSnapshot`."""

def release_snapshot(snapshot: str) -> None:
    """`holdfast::ReleaseSnapshot`."""

def remove_trashed(path: str) -> None:
    """`holdfast::RemoveTrashed`: deletes a path that `dispose_of_steps` or
    `disposal_leftovers` has returned."""

def bring_back_checkpoint(path: str) -> None:
    """`holdfast::BringBackCheckpoint`: renames a checkpoint back that an
    interrupted overwrite has moved aside."""

def remove_unused(path: str) -> bool:
    """Removes a directory and returns True, or returns False if a holdfast save
    is writing in it."""

def hold_checkpoints(paths: list[str]) -> list[bool]:
    """`holdfast::HoldsCheckpoint`: returns, for each path, whether the
    directory has a checkpoint's files."""

def check_may_replace(path: str) -> None:
    """`holdfast::CheckMayReplace`: checks that a path contains nothing besides
    a checkpoint.

    Raises:
        FailedPreconditionError: there are other files; the error names the
            first one.
    """

def build_kvstore_tspec(
    directory: str,
    name: str | None,
    use_ocdbt: bool,
    process_id: str | None,
    replica_separate_folder: bool,
    process_spec: str | None,
    write_mode: str | None,  # "write", "merge", "commit_temporary"
    target_data_file_size: int | None,
    store_separately: bool,
    temporary_path: str | None,
) -> str:
    """`holdfast::BuildKvstoreTspec`: returns a spec as JSON text, like the
    functions below. Raises ValueError with Orbax's messages."""

def build_kvstore_tspec_for_merge(
    directory: str, subdir: str, /
) -> str: ...
def check_ocdbt_process_id(process_id: str, /) -> None: ...
def add_ocdbt_write_options(
    tspec: str, target_data_file_size: int | None
) -> str: ...
def is_remote_storage(tspec: str, /) -> bool: ...
def build_zarr_shard_and_chunk_metadata(
    global_shape: Sequence[int],
    shard_shape: Sequence[int],
    use_compression: bool,
    use_zarr3: bool,
    chunk_shape: Sequence[int],
    /,
) -> str: ...
def build_ts_zarr_shard_and_chunk_metadata(
    global_shape: Sequence[int],
    shard_shape: Sequence[int],
    use_zarr3: bool,
    dtype: str,
    write_chunk_shape: Sequence[int] | None,
    read_chunk_shape: Sequence[int] | None,
    chunk_byte_size: int | None,
) -> str: ...
def calculate_chunk_byte_size(
    write_shape: Sequence[int],
    dtype: str,
    chunk_byte_size: int | None,
    ocdbt_target_data_file_size: int | None,
    kvstore_spec: str | None,
) -> int | None: ...
def array_read_spec(
    directory: str,
    name: str,
    use_zarr3: bool,
    use_ocdbt: bool,
    metadata_key: str | None,
    raise_array_data_missing_error: bool,
    target_dtype: str | None,
) -> str: ...
def array_write_spec(
    directory: str,
    name: str,
    global_shape: Sequence[int],
    write_shape: Sequence[int],
    dtype: str,
    target_dtype: str | None,
    chunk_byte_size: int | None,
    shard_axes: Sequence[int],
    use_compression: bool,
    use_zarr3: bool,
    use_ocdbt: bool,
    ocdbt_target_data_file_size: int | None,
    process_id: str | None,
    metadata_key: str | None,
    replica_separate_folder: bool,
    store_separately: bool,
    temporary_path: str | None,
) -> tuple[str, tuple[int, ...], str, int | None]:
    """Returns JSON text, the chunk shape, and the compression's algorithm and
    level."""

def get_json_tspec_write(
    name: str,
    parent_dir: str,
    use_compression: bool,
    use_zarr3: bool,
    ocdbt_target_data_file_size: int | None,
    use_ocdbt: bool,
    global_shape: Sequence[int],
    local_shape: Sequence[int],
    dtype: str,
    process_index: str | None,
    metadata_key: str | None,
    args: tuple[Any, ...] | None,  # a value of save_args
) -> str: ...
def get_cast_tspec_serialize(
    tspec: str, dtype: str, args_dtype: str | None
) -> str: ...
def get_cast_tspec_deserialize(tspec: str, dtype: str, /) -> str: ...
def get_sharding_tensorstore_spec(
    directory: str, param_name: str, /
) -> str: ...
def assert_parameter_files_exist(
    param_dir: str, metadata_key: str | None, use_zarr3: bool
) -> None:
    """Raises FileNotFoundError, with Orbax's messages, if files are missing."""

def print_ts_debug_data(key: str | None, names: Sequence[str]) -> str: ...

class TsContext:
    """`holdfast::TsContext`, which also owns the data of driver "memory"."""

    def __init__(
        self,
        use_ocdbt: bool,
        file_io_concurrency_limit: int | None,
        data_copy_concurrency_limit: int | None,
    ) -> None: ...
    def json(self) -> str: ...

class SpecHandle:
    """`holdfast::SpecHandle`: an array, or a value in a JSON document."""

    driver: str
    dtype: str
    shape: tuple[int, ...]
    read_chunk_shape: tuple[int, ...]
    write_chunk_shape: tuple[int, ...]
    def spec_json(self) -> str: ...
    def read(
        self, origin: Sequence[int], shape: Sequence[int], /
    ) -> npt.NDArray[Any]: ...
    # Casts the elements to the stored array's dtype.
    def write(
        self, origin: Sequence[int], array: npt.NDArray[Any], /
    ) -> None: ...
    def read_json(self) -> str: ...
    def write_json(self, text: str, /) -> None: ...
    def commit(self) -> None: ...

class KvStoreHandle:
    """`holdfast::KvStoreHandle`. Keys are str or bytes."""

    def spec_json(self) -> str: ...
    def list(self, prefix: str | bytes, /) -> list[bytes]: ...
    # Returns None for an absent key.
    def read(self, key: str | bytes, /) -> bytes | None: ...
    # A value of None deletes the key.
    def write(self, key: str | bytes, value: str | bytes | None) -> None: ...
    def commit(self) -> None: ...

def open_spec(
    json: str,
    context: TsContext,
    open: bool | None = None,
    create: bool | None = None,
    delete_existing: bool | None = None,
    assume_metadata: bool | None = None,
) -> SpecHandle: ...
def open_kv_store(json: str, context: TsContext, /) -> KvStoreHandle: ...
def empty(shape: Sequence[int], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Allocates a C-order array for `read_into`, which jax can adopt without a
    copy.

    The array is uninitialised, 64-byte aligned, and in the engine's memory. A
    large array is on huge pages."""

READS_MAX: int
processor_features: str  # "crc32c bmi2", "crc32c", or ""
version: str

# ---- Megatron Core's zarr checkpoints

class MegatronError(Exception):
    """An error that Megatron Core also raises.

    The arguments are our code for the condition ("ARRAY_NOT_FOUND"), the name
    of the class that Megatron Core raises, and the message."""

    args: tuple[str, str, str]

# ("tensor", key, replica_id, global_shape, global_offset, dtype, local_shape,
# axis_fragmentations or None, prepend_axis_num, allow_shape_mismatch,
# (start, stop) or None, array or None), or ("object", key, replica_id,
# global_shape, global_offset). The array's elements have the width of `dtype`,
# and its strides are arbitrary.
MegatronRow = tuple[Any, ...]

def megatron_validate(ranks: Sequence[Sequence[MegatronRow]]) -> None:
    """Checks that the main replicas of all ranks cover every key exactly once.
    Raises MegatronError."""

def megatron_check_key(key: str) -> None:
    """Checks that `key` names a directory below the checkpoint's. Raises
    MegatronError."""

def megatron_create_arrays(
    rows: Sequence[MegatronRow], directory: str, sync: bool, scalars: bool
) -> None:
    """Creates the arrays whose first shard is among the rows; with `scalars`,
    also for tensors without axes. Raises MegatronError."""

def megatron_write_shards(
    rows: Sequence[MegatronRow],
    directory: str,
    sync: bool,
    scalars: bool,
    threads: int,
) -> Stats:
    """Writes the main replicas' elements. Raises MegatronError."""

def megatron_open_array(
    path: str, mode: str
) -> tuple[tuple[int, ...], tuple[int, ...], str]:
    """Returns an array's shape, chunk shape and dtype. Raises MegatronError.

    `mode`, here and below, selects whose errors are raised: "tensorstore" or
    "zarr"."""

def megatron_load(
    rows: Sequence[MegatronRow],
    targets: Sequence[npt.NDArray[Any] | None],
    directory: str,
    mode: str,
    pad_replicate: bool,
    threads: int,
) -> list[tuple[str, npt.NDArray[Any], list[str]]]:
    """Returns for each row the stored dtype, the elements, and the missing
    chunk files.

    Dtypes that numpy lacks are returned as int16 or uint8. A target is filled
    and returned if it has the stored dtype and the shape; otherwise raises
    MegatronError DTYPE_MISMATCH. Raises other MegatronErrors too."""

def megatron_list(
    directory: str, mode: str
) -> list[tuple[str, str, tuple[int, ...]]]:
    """Returns key, dtype and shape of each array in the directory, sorted.
    Raises MegatronError."""

def read_torch_file(
    data: bytes,
    tensor: Callable[[npt.NDArray[Any], str], Any] | None = None,
) -> Any:
    """Returns the value in a torch.save file, without running its code.

    Containers, numbers, strings, OrderedDict, Namespace, sets, BytesIO and
    numpy arrays keep their types. torch's dtypes, devices and sizes keep theirs
    if the program has imported torch; otherwise they become str and tuple.
    Other objects become PickleRecords.

    Each tensor is the result of `tensor(array, dtype)`; without `tensor`, it is
    a numpy array. In `array`, dtypes that numpy lacks are int16 (bfloat16) or
    uint8. Tensors that share a storage share their memory.

    Raises DataLossError for a damaged file, PermissionDeniedError for a file
    that names code to run (the error names the code), and UnimplementedError
    for an unsupported part (the error names the part).
    """

def read_pickle(data: bytes) -> Any:
    """Returns the value of one pickle of protocol 0 to 5, which contains no
    tensors, as `read_torch_file` does."""

def write_torch_file(
    value: Any,
    tensor: Callable[[Any], tuple[npt.NDArray[Any], str] | None] | None = None,
) -> bytes:
    """Returns a file that torch.load reads.

    `tensor(object)` returns a tensor's elements and dtype, and None for any
    other object. Equal values give equal bytes. Raises ValueError for an object
    that cannot be written, and for nesting deeper than 500.
    """

def torch_file_json(data: bytes) -> str:
    """Returns the value in a torch.save file as canonical JSON on one line; see
    `include/holdfast/tools/torch_file.h`."""

def diff(
    a: str,
    b: str,
    *,
    atol: float = 0.0,
    rtol: float = 0.0,
    equal_nan: bool = True,
    equal_bits: bool = False,
    ignore_dtype: bool = False,
    only_structure: bool = False,
    by_fingerprint: bool = False,
    find_renamed: bool = True,
    rename: Sequence[tuple[str, str, bool]] = ...,
    select: Sequence[str] = ...,
    drop: Sequence[str] = ...,
    step_a: int | None = None,
    step_b: int | None = None,
    threads: int = 0,
    memory_bytes: int = 256 << 20,
    progress: ProgressFn | None = None,
) -> tuple[list[dict[str, Any]], list[int], Stats]:
    """`holdfast::Diff`: returns a row for each leaf, the indices of the worst
    rows, and stats."""

def stats(
    path: str,
    *,
    step: int | None = None,
    threads: int = 0,
    memory_bytes: int = 256 << 20,
    progress: ProgressFn | None = None,
) -> tuple[list[dict[str, Any]], float, float, Stats]:
    """`holdfast::ComputeStats`: returns a row for each tensor, the l2 norm and
    absmax of all tensors together, and stats."""

def report(
    path: str,
    *,
    step: int | None = None,
    statistics: bool = True,
    verify: bool = False,
    against: str | None = None,
    cache: str | None = None,
    moved: bool = False,
    threads: int = 0,
    memory_bytes: int = 256 << 20,
    progress: ProgressFn | None = None,
) -> tuple[str, int, int, int, int, str]:
    """`holdfast::MakeReport`: returns the page, the numbers of leaves, of
    unreadable leaves, of damages and of different leaves, and why the cache was
    not used."""

def resolve_step_address(path: str) -> str:
    """`holdfast::ResolveStepAddress`."""

def read_step_log(
    root: str,
    *,
    count: int = 0,
    moved: bool = False,
    moved_count: int = 3,
    cache: str | None = None,
    threads: int = 0,
    memory_bytes: int = 256 << 20,
    progress: ProgressFn | None = None,
) -> tuple[
    list[
        tuple[
            StepInfo,
            dict[str, float],
            float | None,
            str,
            list[tuple[str, float]],
            str,
        ]
    ],
    str,
]:
    """`holdfast::ReadStepLog`: returns a row for each entry, and why the cache
    was not used."""

def bisect(
    root: str,
    bad_if: str | Callable[[str], bool | None],
    *,
    good: int | None = None,
    bad: int | None = None,
    threads: int = 0,
    memory_bytes: int = 256 << 20,
) -> tuple[
    tuple[int, str, str] | None,
    list[tuple[int, str, str]],
    tuple[int, str, str],
    list[tuple[tuple[int, str, str], str, str, int, int]],
    int,
    int,
    int,
]:
    """`holdfast::Bisect`; for a function, `holdfast::BisectBy`.

    A step is (number, name, path). Returns the first bad step or None, the
    candidates, the last good step, the probes, and the total numbers of steps,
    leaves and bytes. A probe is (step, verdict, reason, leaves, bytes)."""

def merge(
    sources: Sequence[tuple[str, str]],
    target: str,
    *,
    prefer: str = "",
    average: bool = False,
    weights: Sequence[float] = ...,
    take_first: bool = False,
    format: str | None = None,
    zarr_format: int | None = None,
    use_ocdbt: bool | None = None,
    compression: str | None = "zstd",
    chunk_bytes: int = 8 << 20,
    overwrite: bool = False,
    check: bool = True,
    sync: bool = True,
    threads: int = 0,
    memory_bytes: int = 256 << 20,
    progress: ProgressFn | None = None,
) -> dict[str, Any]:
    """`holdfast::Merge`; a source is (path, prefix)."""

def rescue(
    source: str,
    target: str,
    *,
    fill: str = "",
    compression: str | None = "zstd",
    sync: bool = True,
    threads: int = 0,
    memory_bytes: int = 256 << 20,
    progress: ProgressFn | None = None,
) -> dict[str, Any]:
    """`holdfast::Rescue`. The result's "lost" is a list of (leaf, file, offset,
    reason, filled)."""

class Follower:
    """`holdfast::Follower`; `arrays` are pairs of a leaf's name and the array
    to update."""

    def __init__(
        self,
        root: str,
        arrays: Sequence[tuple[str, npt.NDArray[Any]]],
        *,
        threads: int = 0,
        memory_bytes: int = 256 << 20,
    ) -> None: ...
    # Returns step, path, delta_count, read_bytes and the names of the arrays
    # that changed.
    def poll(self) -> tuple[int, str, int, int, list[str]] | None: ...
    @property
    def step(self) -> int | None: ...

def read_patches(
    path: str,
    *,
    threads: int = 0,
    memory_bytes: int = 256 << 20,
    progress: ProgressFn | None = None,
) -> list[
    tuple[str, tuple[int, ...], npt.NDArray[Any], npt.NDArray[Any]]
]:
    """`holdfast::ReadPatches`: returns name, shape, indices and values for each
    array."""

class VirtualFiles:
    """`holdfast::VirtualFiles`; an entry is (name, is_directory,
    byte_count)."""

    @staticmethod
    def open(
        path: str,
        *,
        step: int | None = None,
        item: str = "",
        kept_bytes_max: int = 256 << 20,
    ) -> VirtualFiles: ...
    def stat(self, name: str) -> tuple[str, bool, int]: ...
    def list(self, directory: str) -> list[tuple[str, bool, int]]: ...
    # Returns `byte_count` bytes, or fewer at the end of the file.
    def read(self, name: str, offset: int, byte_count: int) -> bytes: ...
    def tag(self, name: str) -> str: ...
    def is_current(self) -> bool: ...
    def path(self) -> str: ...

class LocalTierOptions:
    directory: str
    save_every: int
    max_to_keep: int
    bytes_max: int

    def __init__(self) -> None: ...

class SharedTierOptions:
    directory: str
    save_every: int
    max_to_keep: int | None
    bytes_per_second_max: float

    def __init__(self) -> None: ...

class ParityOptions:
    data_shards: int
    parity_shards: int
    failure_domain: str
    block_bytes: int
    bytes_per_second_max: float

    def __init__(self) -> None: ...

class TieredManagerOptions:
    """`holdfast::TieredManagerOptions`; a directory may be any path object."""

    run: str
    local: LocalTierOptions
    shared: SharedTierOptions
    parity: ParityOptions
    item: str
    host: str
    listen_address: str
    port: int
    timeout_seconds: float
    answer_seconds_max: float
    peer_threads: int
    def __init__(self) -> None: ...
    def set_save(
        self,
        *,
        zarr_format: int,
        use_ocdbt: bool,
        compression: str | None,
        chunk_bytes: int,
        ocdbt_target_data_file_bytes: int,
        sync: bool,
        fingerprints: bool,
        threads: int,
        memory_bytes: int,
    ) -> None: ...

class TierStats:
    data_bytes: int
    parity_bytes: int
    received_bytes: int
    write_seconds: float
    protect_seconds: float
    drain_seconds: float
    drained_bytes: int

class TierStepInfo:
    step: int
    epoch: int
    is_local: bool
    is_protected: bool
    is_shared: bool

class TierRestore:
    step: int
    source: str  # "local", "parity", "shared"
    id: str
    notes: list[str]
    rebuilt_ranks: list[int]
    healed_block_count: int
    peer_bytes: int

class TieredManager:
    """`holdfast::TieredManager`. Every call fails in a forked child."""

    def __init__(
        self,
        options: TieredManagerOptions,
        *,
        group: ProcessGroup | None = None,
        warn: Callable[[str], object] | None = None,  # called on any thread
    ) -> None: ...
    def should_save(self, step: int) -> bool: ...
    # Keeps a reference to `tree` until its elements are on the local tier.
    def save(
        self,
        step: int,
        tree: Tree,
        *,
        force: bool = False,
        is_shared: bool | None = None,  # None: as the tier's `save_every`
        files: dict[str, bytes] = ...,
    ) -> bool: ...
    # Called instead of `save`; makes the save fail on all ranks.
    def fail_save(self, step: int, error: BaseException) -> None: ...
    def wait_protected(self) -> None: ...
    def wait(self) -> None: ...
    # Calls `read` on the calling thread. If `read` raises InvalidArgumentError,
    # so does this call. If `read` finds a step damaged, the step is skipped.
    def restore(
        self,
        read: Callable[[TierRestore, Checkpoint], object],
        step: int | None = None,
    ) -> TierRestore: ...
    def read_file(self, path: str) -> bytes: ...
    def steps(self) -> list[TierStepInfo]: ...
    def stats(self) -> TierStats: ...
    def close(self) -> None: ...
