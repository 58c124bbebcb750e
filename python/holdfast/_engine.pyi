"""The compiled engine: holdfast's C++ calls with Python objects at the edges.

Not public; `holdfast` and `holdfast.orbax` are. Calls that work on files give
up the GIL, poll for signals (KeyboardInterrupt cancels the work within a
moment and leaves nothing half-committed) and raise the classes of
`holdfast.errors`.
"""

from collections.abc import Callable, Container, Sequence
from typing import Any, Protocol, TypedDict

import numpy as np
import numpy.typing as npt
from typing_extensions import Unpack

# phase ("plan", "write", "read", "sync", "verify", "commit"), bytes done, bytes
# in all; called on the thread that made the call.
ProgressFn = Callable[[str, int, int], object]

class Stats:
    """Seconds of each phase, and what moved; as `holdfast::Stats`."""

    plan_seconds: float
    transfer_seconds: float
    sync_seconds: float
    commit_seconds: float
    total_seconds: float
    decoded_bytes: int
    stored_bytes: int
    chunk_count: int
    in_flight_bytes_peak: int
    mapped_bytes: int
    fingerprint_count: int

    def __init__(self) -> None: ...

class ArrayLeaf:
    """An array other than a plain numpy leaf: what `adapt` makes of jax.Arrays.

    `shards` are (origin in elements, host array) and cover `shape` once; a
    single shard may be the whole. With `dtype` they are those of one of several
    processes, and may be none. The host arrays are borrowed, so they must not
    change while a tree that holds them is saved.
    """

    def __init__(
        self,
        shape: Sequence[int],
        shards: Sequence[tuple[Sequence[int], npt.NDArray[Any]]],
        *,
        kind: str = "jax",  # "jax" or "numpy": the value type that is recorded
        immutable: bool = True,  # a snapshot need not copy it
        sharding_json: str | None = None,  # None: no entry in `_sharding`
        prng_impl: str | None = None,
        write_shape: Sequence[int] | None = None,
        # Given: other processes write other shards, and this one maybe none.
        dtype: np.dtype[Any] | None = None,
    ) -> None: ...

class Node:
    """A container other than a dict, list or tuple: keys in their own order.

    `kind` is "attributes" (keys are recorded like those of dicts) or
    "sequence" (keys ignored, recorded as indices). One without children is
    recorded as None if it has attributes, as `Tuple` else.
    """

    def __init__(
        self,
        kind: str,
        keys: Sequence[Any],
        children: Sequence[Any],
    ) -> None: ...

class ExternalLeaf:
    """A leaf that a type handler stores: only its value type is recorded."""

    value_type: str

    def __init__(self, value_type: str) -> None: ...

class Tree:
    """A tree ready to be saved; keeps references to the objects it borrows."""

    leaf_count: int
    byte_count: int  # decoded bytes of all arrays and scalars
    copied_bytes: int  # what the snapshot copied
    item_documents: str  # a JSON object, or empty

def build_tree(
    tree: Any,
    *,
    adapt: Callable[[Any, tuple[Any, ...]], Any],
    snapshot: bool = False,
    strings: bool = True,
    int_keys: bool = False,
) -> Tree:
    """Walks a pytree of dict, list, tuple, namedtuple, None, numpy arrays and
    scalars, bool, int, float, complex, str, bytes and Ellipsis.

    Anything else is handed to `adapt(object, path)`, which returns an
    ArrayLeaf, a Node, or an object of the kinds above, or raises. `path` is the
    tuple of keys that leads there. With `snapshot` every array that may change
    is copied, by all threads, before the call returns. Dicts are sorted by key
    as JAX sorts them; keys become their str(), but for integers with
    `int_keys`.

    ValueError, naming the leaf, for what cannot be saved: a tree that contains
    itself, keys that do not compare ("Comparator raised exception while sorting
    pytree dictionary keys."), dtypes without a stored form ('Error parsing
    object member "dtype": Unsupported data type: "str64"'), ints beyond int64.
    """

class Transport(Protocol):
    """Carries the messages of a group; called by a thread of the engine's.

    `receive` gives None when nothing came in time (seconds; 0: look only). A
    topic is new for its pair of ranks.
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
    """`holdfast::ProcessGroup`; one call at a time. An exception of the
    transport fails the call, which raises it."""

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
        members: Sequence[int] = (),  # of the transport's ranks; (): all
    ) -> None: ...
    # The number of the call that goes on, or else of the next.
    @property
    def call_number(self) -> int: ...
    # The number of the call that goes on, or else of the last.
    @property
    def failed_ranks(self) -> list[int]: ...
    # All meetings until end_call are one call, which fails as one.
    def begin_call(self) -> None: ...
    # `error` is told to the others where they do not know. Raises nothing.
    def end_call(
        self,
        error: BaseException | None = None,
        *,
        wait_seconds_max: float = ...,
    ) -> None: ...
    # Raises unless all ranks bring None.
    def agree(
        self, phase: str, file: str = "", error: BaseException | None = None
    ) -> None: ...
    def all_gather(
        self,
        phase: str,
        file: str,
        value: bytes,
        timeout_seconds: float | None = None,  # None: the group's
    ) -> list[bytes]: ...
    def broadcast(
        self, phase: str, file: str, root: int, value: bytes
    ) -> bytes: ...

def thread_groups(
    size: int, *, timeout_seconds: float = 600, name: str = "holdfast"
) -> list[ProcessGroup]:
    """Groups of ranks that are threads of this process, for tests."""

class SaveItemOptions(TypedDict, total=False):
    """How an item is saved, whichever call does it.

    save_args: name -> (dtype name, chunk_byte_size, shard_axes) or these and
    (write_chunk_shape, read_chunk_shape).
    """

    zarr_format: int  # 2; of `save` 0: the format's own
    use_ocdbt: bool  # True
    compression: str | None  # "zstd"; of `save` "planes"; or "fast", None
    chunk_bytes_target: int  # 0: one chunk a shard, as Orbax; of `save` 8 MiB
    ocdbt_target_data_file_bytes: int  # 2 GiB
    item_custom_metadata: str
    item_documents: str
    save_args: dict[str, tuple[Any, ...]]
    write_digests: bool  # True
    sync: bool  # True
    thread_count: int
    in_flight_bytes_max: int  # 256 MiB
    progress: ProgressFn | None
    support_rich_types: bool  # False
    adopt_existing: bool  # False; keep what type handlers wrote there
    # As handlers take it (whether, or which), instead of `compression` and
    # `chunk_bytes_target`.
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
    also_shard_bytes_max: int = 0,  # 0: the format's own
    group: ProcessGroup | None = None,
    base: str | None = None,
    anchor_every: int | None = None,
    **options: Unpack[SaveItemOptions],
) -> Stats:
    """`holdfast::Save`; with a base `holdfast::SaveDelta`, with `anchor_every`
    `holdfast::SaveInChain`, which warns where a damaged base made the step
    whole."""

def fingerprints(tree: Tree) -> dict[str, str]:
    """`holdfast::FingerprintsOf`."""

def check_replicas(
    tree: Tree, *, group: ProcessGroup | None = None
) -> tuple[int, int, int]:
    """`holdfast::CompareReplicas`, and its report's Check: box_count,
    replica_count and compared_count."""

def save_item(
    directory: str,
    tree: Tree,
    *,
    anchor_every: int | None = None,  # else `holdfast::SaveItemInChain`
    **options: Unpack[SaveItemOptions],
) -> Stats:
    """`holdfast::SaveItem`: a pytree item in a directory, without commit."""

def save_item_part(
    directory: str,
    tree: Tree,
    *,
    rank: int,
    is_primary: bool,
    id: str = "",  # of its database; empty: the rank
    save_id: str = "",  # alike on all processes of one save
    **options: Unpack[SaveItemOptions],
) -> Stats:
    """`holdfast::SaveItemPart`: what one of several processes writes."""

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
    """`holdfast::FinishItem`: one item of the parts of all `ranks`."""

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
    is_replica: bool,  # to `ocdbt.process_replica_<id>`
    is_partial: bool,  # other processes write the rest
    is_primary: bool,
) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """`holdfast::WriteParams`: (name, write_shape, chunk_shape) of each."""

# (param_name, write_shape, chunk_shape, JSON text of ext_metadata)
_MetadataRow = tuple[str, tuple[int, ...], tuple[int, ...], str]

def add_array_metadatas(
    directory: str, process: int, rows: Sequence[_MetadataRow]
) -> None:
    """`holdfast::AddArrayMetadatas`."""

def read_array_metadatas(directory: str) -> dict[int, list[_MetadataRow]]:
    """`holdfast::ReadArrayMetadatas`: rows by process."""

def validate_array_metadatas(
    rows: dict[int, list[_MetadataRow]], *, process_count: int, reference: int
) -> None:
    """`holdfast::ValidateAllArrayMetadatas`."""

def recorded_shardings(directory: str) -> dict[str, str] | None:
    """`holdfast::RecordedShardings`: JSON texts by parameter name."""

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
    """`holdfast::ExplainMissingArray`: raises, unless `problem` says it."""

def serialize_strings(
    filename: str, params: Sequence[tuple[str, str]], texts: Sequence[str]
) -> None:
    """`holdfast::StringHandler::Serialize`; params: (directory, name)."""

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
    """`holdfast::OpenStoredArrays`: one leaf a name."""

def write_aggregate(path: str, tree: Tree) -> None:
    """`holdfast::MsgpackHandler::Serialize`: a tree as one msgpack file."""

def read_aggregate(path: str) -> Any:
    """`holdfast::MsgpackHandler::Deserialize`; values that are stored elsewhere
    are texts, "PLACEHOLDER://name"."""

class MsgpackExtension:
    """A value of a kind that the program defines: 0 to 127."""

    def __init__(self, code: int, data: bytes) -> None: ...

def msgpack_pack(value: Any, default: Callable[[Any], Any]) -> bytes:
    """The msgpack of None, bool, int, float, str, bytes, list, dict and
    MsgpackExtension, of these very classes; `default` makes one of them of
    anything else."""

def msgpack_unpack(
    data: bytes,
    extension: Callable[[int, bytes], Any],
    *,
    texts_are_bytes: bool = False,
) -> Any:
    """The value of msgpack; `extension` makes those of MsgpackExtensions."""

class PendingSave:
    """`holdfast::PendingSave`. A context manager: leaving it without commit()
    removes the temporary directory."""

    directory: str  # absolute; "<path>.orbax-checkpoint-tmp" or `path`

    # has_marker: at the final path, `commit_success.txt` last; None: where the
    # storage knows no rename of directories.
    # directory_mode: permissions of directories that are made.
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
    # Relies on the digests of an item that save_item has written there.
    def adopt_item(self, name: str = "") -> None: ...
    # As the module's save_item, into directory/name.
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
    # Removes the temporary directory; nothing after commit().
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
    thread_count: int = 0,
    in_flight_bytes_max: int = 256 << 20,
    progress: ProgressFn | None = None,
) -> tuple[Any, Stats, list[str]]:
    """`holdfast::Load`: arrays as numpy arrays that own the engine's memory,
    scalars as Python's, strings, None, typed empties, Ellipsis; and notes."""

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
    fingerprint: str  # empty: none, or not asked for
    problem: Exception | None  # what reading it raises

class Checkpoint:
    """`holdfast::Checkpoint`, opened for reading; metadata only until read."""

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
    leaves: list[LeafInfo]  # made once

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
    # The names in `leaves`, without making them.
    @property
    def leaf_names(self) -> list[str]: ...
    @property
    def value_types(self) -> set[tuple[str, bool]]: ...
    # `leaves` as tuples of (name, key, layout, sharding_json, has_problem), the
    # layout being (value_type, skip_deserialize, dtype, shape, chunk_shape,
    # write_shape, array_metadata). Neighbours that are stored alike share it.
    def leaf_rows(self) -> list[tuple[Any, ...]]: ...
    # The tree that the module's `load` gives, without opening it again.
    def load(
        self,
        *,
        thread_count: int = 0,
        in_flight_bytes_max: int = 256 << 20,
        progress: ProgressFn | None = None,
    ) -> Any: ...
    # (leaf, dtype or None for the stored one) each: whole arrays, in one pass.
    def read_leaves(
        self,
        requests: Sequence[tuple[int, np.dtype[Any] | None]],
        *,
        thread_count: int = 0,
        in_flight_bytes_max: int = 256 << 20,
        progress: ProgressFn | None = None,
    ) -> list[npt.NDArray[Any]]: ...
    # The tree with each leaf's index in `leaves`; typed empties as themselves.
    def structure(self) -> Any: ...
    # One value a leaf, in dicts and lists; with `namedtuple_of`, which makes a
    # class of (module, name, fields), in the containers of
    # `value_metadata_tree`.
    def nest(
        self,
        values: list[Any],
        namedtuple_of: Callable[[str, str, tuple[str, ...]], Any] | None = None,
    ) -> Any: ...
    # The whole leaf: a numpy array, a Python scalar, str, bytes (an object: its
    # file of torch.save), None, {}, ...
    def read(self, leaf: int) -> Any: ...
    # The box at `origin`; a numpy array of `shape` in the stored dtype.
    def read_box(
        self, leaf: int, origin: Sequence[int], shape: Sequence[int]
    ) -> npt.NDArray[Any]: ...
    # `holdfast::MapTensors`: the array of each leaf, read-only unless
    # copy_on_write, or why it cannot be mapped.
    def map(
        self,
        leaves: Sequence[int],
        *,
        copy_on_write: bool = False,
        verify: bool = False,
    ) -> list[npt.NDArray[Any] | str]: ...
    # (leaf, origin, target) each: fills the writable numpy arrays, casting to
    # their dtypes, in one parallel pass; each stored chunk is read once.
    def read_into(
        self,
        requests: Sequence[tuple[int, Sequence[int], npt.NDArray[Any]]],
        *,
        thread_count: int = 0,
        in_flight_bytes_max: int = 256 << 20,
        progress: ProgressFn | None = None,
    ) -> Stats: ...
    # `holdfast::ReadTogether`: (leaf, origin, shape, dtype or None for the
    # stored one) each; new arrays, one a request, on memory that the ranks of a
    # host share behind the scenes. All ranks of the group call it.
    def read_together(
        self,
        requests: Sequence[
            tuple[int, Sequence[int], Sequence[int], np.dtype[Any] | None]
        ],
        group: ProcessGroup,
        *,
        thread_count: int = 0,
        in_flight_bytes_max: int = 256 << 20,
        progress: ProgressFn | None = None,
    ) -> tuple[list[npt.NDArray[Any]], Stats]: ...
    # Lower-case hex sha256 of the value.
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
    thread_count: int = 0,
    in_flight_bytes_max: int = 256 << 20,
    progress: ProgressFn | None = None,
) -> tuple[list[Damage], list[Damage], list[str], int, Stats]:
    """`holdfast::Verify`: damages, what is not supported, notes, leaf count,
    stats."""

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
    chunk_bytes_target: int = 8 << 20,
    shard_bytes_max: int = 0,
    also: str | None = None,
    overwrite: bool = False,
    restart: bool = False,
    check: bool = True,
    sync: bool = True,
    thread_count: int = 0,
    in_flight_bytes_max: int = 256 << 20,
    progress: ProgressFn | None = None,
) -> dict[str, Any]:
    """`holdfast::Convert`: what it counted, and its report as JSON."""

def recipe_names() -> list[str]: ...
def materialize(
    view: str,
    target: str | None,
    *,
    step: int | None = None,
    zarr_format: int | None = None,
    use_ocdbt: bool | None = None,
    compression: str | None = "zstd",
    chunk_bytes_target: int = 8 << 20,
    overwrite: bool = False,
    restart: bool = False,
    check: bool = True,
    sync: bool = True,
    thread_count: int = 0,
    in_flight_bytes_max: int = 256 << 20,
    progress: ProgressFn | None = None,
) -> dict[str, Any]:
    """`holdfast::Materialize`: what it counted, and its report as JSON."""

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
    chunk_bytes_target: int = 8 << 20,
    overwrite: bool = False,
    sync: bool = True,
    thread_count: int = 0,
    in_flight_bytes_max: int = 256 << 20,
    progress: ProgressFn | None = None,
) -> dict[str, Any]:
    """`holdfast::View`: what it counted, and its report as JSON."""

class StepInfo:
    """`holdfast::StepInfo`, a step directory of a manager root."""

    name: str
    step: int | None
    path: str
    committed: bool
    why_not: str  # empty when committed
    damage: str  # of a committed one; empty when all is there
    commit_timestamp_ns: int | None
    bytes: int  # of all files below it
    items: list[str]
    metrics: str  # JSON text, or empty

def list_steps(root: str) -> list[StepInfo]:
    """`holdfast::ListSteps`: by step, temporary directories last."""

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
    thread_count: int = 0,
) -> list[tuple[int, str, bool, int, str | None]]:
    """`holdfast::ScanSteps`: the steps in `root`, by step.

    Each is (step, name of its directory, whether it is committed, commit time
    in nanoseconds since 1970, text of its metrics). Without a recorded time it
    is the directory's, in whole seconds; without `read_metadata` 0, and
    nothing is opened. Damaged metrics count as none. `commit_mode` is a value
    of AtomicityMode. None when there is no `root`.
    """

def check_may_hold_steps(root: str) -> None:
    """`holdfast::CheckMayHoldSteps`; raises InvalidArgumentError."""

def describe_steps(
    paths: list[str],
) -> list[tuple[int, str, bool, int, str | None]]:
    """`holdfast::DescribeSteps`: rows as of `scan_steps`, with paths for names.

    Steps that are gone are left out.
    """

def is_path_finalized(
    path: str,
    *,
    commit_mode: str = "auto",
    allow_legacy_atomic_rename: bool = False,
) -> bool:
    """`holdfast::CheckPathFinalized`: whether it is a committed checkpoint."""

def is_path_temporary(
    path: str,
    *,
    commit_mode: str = "auto",
    allow_legacy_atomic_rename: bool = False,
) -> bool:
    """`holdfast::CheckPathTemporary`: whether it was never committed."""

def temporary_names(
    root: str,
    *,
    commit_mode: str = "auto",
    allow_legacy_atomic_rename: bool = False,
) -> list[str]:
    """`holdfast::TemporaryCheckpointNames`: directories never committed."""

def step_from_checkpoint_name(name: str) -> int:
    """`holdfast::StepFromCheckpointName`.

    Raises:
        InvalidArgumentError: it holds no step number.
    """

def check_newest_step(
    root: str,
    newest: tuple[int, str],
    met: str,
    others: list[tuple[int, str]],
) -> None:
    """`holdfast::CheckNewestStep`; steps are numbers and names of directories.

    Raises:
        DataLossError: the newest step is damaged; it says so in full.
    """

class KeepRule:
    """`holdfast::PreservationPolicy`: which steps stay."""

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
    # `metric_of` gives what metrics are sorted by, by Python.
    @staticmethod
    def best(
        metric_of: Callable[[Any], Any],
        reverse: bool,
        n: int | None,
        keep_checkpoints_without_metrics: bool,
    ) -> KeepRule: ...
    @staticmethod
    def younger_than(seconds: float) -> KeepRule: ...
    # The rule of a manager's older options; InvalidArgumentError beside a
    # `preservation_policy`.
    @staticmethod
    def of_options(options: Any) -> KeepRule: ...
    # The steps have `step`, `time` and `metrics`; of the last two, only what
    # the rule needs is asked for.
    def should_preserve(self, checkpoints: Sequence[Any]) -> list[bool]: ...

def best_by_metric(
    checkpoints: Sequence[Any],
    metric_of: Callable[[Any], Any],
    reverse: bool,
) -> int | None:
    """The position of the best; None where no metric is a number."""

def check_manager_options(
    options: Any, warn: Callable[[str], object]
) -> dict[str, Any]:
    """`holdfast::CheckedManagerOptions` of the members of Python's options; the
    members that read_only changes, and what they become."""

class SaveRule:
    """`holdfast::SaveDecisionPolicy`: whether a step is saved."""

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
    # Called with the step and the one before, or None.
    @staticmethod
    def function(function: Callable[[int, int | None], Any]) -> SaveRule: ...
    # The rule of a manager's older options.
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
    """`holdfast::DisposeOfSteps`: they stop being steps of the root.

    Gives the paths that `remove_trashed` is left to remove, and the names of
    steps that stay because others refer to them.
    """

def disposal_leftovers(root: str) -> list[str]:
    """`holdfast::DisposalLeftovers`: what `remove_trashed` was not told of."""

# ---- object stores: `holdfast/tools/remote.h`, with its names

def remote_settings() -> dict[str, Any]: ...
def set_remote_settings(values: dict[str, Any]) -> None: ...
def remote_counters() -> dict[str, int]: ...
def metrics() -> dict[str, float]: ...
def metrics_text() -> str: ...
def crash_mark(text: str, /) -> None: ...
def set_libcurl_path(path: str) -> None:
    """Sets the library to load when the system has no libcurl."""

# ---- places: `holdfast/tools/places.h`

class PlaceReader:
    """`holdfast::PlaceReader`: one version of a file, in pieces."""

    @property
    def byte_count(self) -> int: ...
    def read(self, offset: int, byte_count: int) -> bytes: ...

class PlaceWriter:
    """`holdfast::PlaceWriter`: a file that appears, whole, by finish()."""

    def append(self, piece: bytes) -> None: ...
    def finish(self) -> None: ...

def open_place_reader(path: str) -> PlaceReader: ...
def open_place_writer(path: str) -> PlaceWriter: ...

# (kind: 0 missing, 1 file, 2 directory, 3 other; bytes; modified in nanoseconds
# since 1970, 0: not known)
def stat_place(path: str) -> tuple[int, int, int]: ...
def list_place(path: str) -> list[tuple[str, tuple[int, int, int]]]: ...
def read_place(path: str) -> bytes: ...
def read_checked_file(path: str) -> bytes: ...
def find_item_deletion(path: str) -> str | None:
    """`holdfast::FindItemDeletion`: the item that is being deleted.

    Raises:
        FailedPreconditionError: the record says nothing that could be done.
    """

def begin_item_deletion(path: str, item: str, mode: int | None) -> None:
    """`holdfast::BeginItemDeletion`: readers see the item no longer."""

def finish_item_deletion(path: str) -> None:
    """`holdfast::FinishItemDeletion`: removes the item's files."""

def check_deletable_item(item: str) -> None:
    """`holdfast::CheckDeletableItem`.

    Raises:
        InvalidArgumentError: no item of a user's has such a name.
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
    """`holdfast::SyncPlaceDirectory`; fine where there is no such sync."""

def is_nobodys_name(name: str, *, is_directory: bool) -> bool:
    """`holdfast::IsNobodysName`: ".DS_Store", "._x", ".nfs0123"."""

def rename_place(source: str, target: str, *, is_directory: bool) -> None: ...
class SaveLock:
    """`holdfast::SaveLock`; given back when nobody has it any more."""

    def release(self) -> None: ...

def take_save_lock(path: str) -> SaveLock:
    """`holdfast::SaveLock::Take`."""

def create_snapshot(source: str, snapshot: str) -> None:
    """`holdfast::CreateSnapshot`."""

def release_snapshot(snapshot: str) -> None:
    """`holdfast::ReleaseSnapshot`."""

def remove_trashed(path: str) -> None:
    """`holdfast::RemoveTrashed`: removes what `trash_steps` gave."""

def bring_back_checkpoint(path: str) -> None:
    """`holdfast::BringBackCheckpoint`: the name of one that was put aside."""

def remove_unused(path: str) -> bool:
    """`remove_tree`, unless a save of holdfast is writing in it: then False."""

def hold_checkpoints(paths: list[str]) -> list[bool]:
    """`holdfast::HoldsCheckpoint`: whether directories are some by their files.
    """

def check_may_replace(path: str) -> None:
    """`holdfast::CheckMayReplace`: refuses what is more than a checkpoint.

    Raises:
        FailedPreconditionError: names the first file that is not the
            checkpoint's.
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
    """`holdfast::BuildKvstoreTspec`: JSON text, as all of these. ValueError
    with Orbax's texts."""

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
    """JSON text, chunk shape, compression algorithm and level."""

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
    """FileNotFoundError with Orbax's texts."""

def print_ts_debug_data(key: str | None, names: Sequence[str]) -> str: ...

class TsContext:
    """`holdfast::TsContext`, and the memory of driver "memory"."""

    def __init__(
        self,
        use_ocdbt: bool,
        file_io_concurrency_limit: int | None,
        data_copy_concurrency_limit: int | None,
    ) -> None: ...
    def json(self) -> str: ...

class SpecHandle:
    """`holdfast::SpecHandle`: an array, or a member of a JSON document."""

    driver: str
    dtype: str
    shape: tuple[int, ...]
    read_chunk_shape: tuple[int, ...]
    write_chunk_shape: tuple[int, ...]
    def spec_json(self) -> str: ...
    def read(
        self, origin: Sequence[int], shape: Sequence[int], /
    ) -> npt.NDArray[Any]: ...
    # Elements are cast to the array's dtype.
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
    # None for an absent key.
    def read(self, key: str | bytes, /) -> bytes | None: ...
    # None deletes the key.
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
    """An uninitialised, 64-byte aligned C-order array in the engine's memory
    (huge pages for large ones): a target for read_into that jax can adopt
    without a copy."""

READS_MAX: int
processor_features: str  # "crc32c bmi2", "crc32c", or ""
version: str

# ---- Megatron Core's zarr checkpoints

class MegatronError(Exception):
    """A condition that Megatron Core knows: its arguments are our code for it
    ("ARRAY_NOT_FOUND"), the name of the class that Megatron Core raises, and
    the text."""

    args: tuple[str, str, str]

# ("tensor", key, replica_id, global_shape, global_offset, dtype, local_shape,
# axis_fragmentations or None, prepend_axis_num, allow_shape_mismatch,
# (start, stop) or None, array or None), or ("object", key, replica_id,
# global_shape, global_offset). An array has the dtype's width and any strides.
MegatronRow = tuple[Any, ...]

def megatron_validate(ranks: Sequence[Sequence[MegatronRow]]) -> None:
    """The main replicas of all ranks cover every key once. Raises
    MegatronError."""

def megatron_check_key(key: str) -> None:
    """It names a directory below the checkpoint's. Raises MegatronError."""

def megatron_create_arrays(
    rows: Sequence[MegatronRow], directory: str, sync: bool, scalars: bool
) -> None:
    """Makes the arrays whose first shard is among the rows. `scalars`: of
    tensors without axes too. Raises MegatronError."""

def megatron_write_shards(
    rows: Sequence[MegatronRow],
    directory: str,
    sync: bool,
    scalars: bool,
    thread_count: int,
) -> Stats:
    """Writes the main replicas' elements. Raises MegatronError."""

def megatron_open_array(
    path: str, mode: str
) -> tuple[tuple[int, ...], tuple[int, ...], str]:
    """Shape, chunk shape and dtype of an array. `mode`, here and below:
    "tensorstore" or "zarr", whose errors. Raises MegatronError."""

def megatron_load(
    rows: Sequence[MegatronRow],
    targets: Sequence[npt.NDArray[Any] | None],
    directory: str,
    mode: str,
    pad_replicate: bool,
    thread_count: int,
) -> list[tuple[str, npt.NDArray[Any], list[str]]]:
    """For each row the stored dtype, the elements (dtypes that numpy lacks as
    int16 or uint8) and the chunk files that are not there. A target is filled,
    and returned, when it has the stored dtype and the shape; else MegatronError
    DTYPE_MISMATCH is raised, as others are."""

def megatron_list(
    directory: str, mode: str
) -> list[tuple[str, str, tuple[int, ...]]]:
    """Key, dtype and shape of each array of the directory, sorted. Raises
    MegatronError."""

def read_torch_file(
    data: bytes,
    tensor: Callable[[npt.NDArray[Any], str], Any] | None = None,
) -> Any:
    """The value in a file of torch.save, read without running anything.

    Containers, numbers, strings, OrderedDict, Namespace, sets, BytesIO and
    numpy arrays are themselves; torch's dtypes, devices and sizes too when the
    program has imported torch, else str and tuple; other objects are
    PickleRecords. `tensor(array, dtype)` makes each tensor: dtypes that numpy
    lacks come as int16 (bfloat16) or uint8; without it tensors are numpy
    arrays. Tensors that share a storage share their memory.

    Raises DataLossError (damaged), PermissionDeniedError (names what is not
    run), UnimplementedError (naming the unsupported part).
    """

def read_pickle(data: bytes) -> Any:
    """The same of one pickle of protocol 0 to 5, which holds no tensors."""

def write_torch_file(
    value: Any,
    tensor: Callable[[Any], tuple[npt.NDArray[Any], str] | None] | None = None,
) -> bytes:
    """A file that torch.load reads.

    `tensor(object)` gives the elements and the dtype of what is a tensor, None
    for what is not. Equal values give equal bytes. Raises ValueError for an
    object that is not written, or nesting deeper than 500.
    """

def torch_file_json(data: bytes) -> str:
    """The value in a file of torch.save as canonical JSON on one line, as
    `include/holdfast/tools/torch_file.h` describes it."""

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
    thread_count: int = 0,
    in_flight_bytes_max: int = 256 << 20,
    progress: ProgressFn | None = None,
) -> tuple[list[dict[str, Any]], list[int], Stats]:
    """`holdfast::Diff`: a row a leaf, the numbers of the worst, stats."""

def stats(
    path: str,
    *,
    step: int | None = None,
    thread_count: int = 0,
    in_flight_bytes_max: int = 256 << 20,
    progress: ProgressFn | None = None,
) -> tuple[list[dict[str, Any]], float, float, Stats]:
    """`holdfast::ComputeStats`: a row a tensor, l2 norm and absmax of all."""

def report(
    path: str,
    *,
    step: int | None = None,
    statistics: bool = True,
    verify: bool = False,
    against: str | None = None,
    cache: str | None = None,
    moved: bool = False,
    thread_count: int = 0,
    in_flight_bytes_max: int = 256 << 20,
    progress: ProgressFn | None = None,
) -> tuple[str, int, int, int, int, str]:
    """`holdfast::MakeReport`: the page; leaves, and of these those that cannot
    be read, are damaged, and are different; what ails the cache."""

def resolve_step_address(path: str) -> str:
    """`holdfast::ResolveStepAddress`."""

def read_step_log(
    root: str,
    *,
    count: int = 0,
    moved: bool = False,
    moved_count: int = 3,
    cache: str | None = None,
    thread_count: int = 0,
    in_flight_bytes_max: int = 256 << 20,
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
    """`holdfast::ReadStepLog`: a row an entry; what ails the cache."""

def bisect(
    root: str,
    bad_if: str | Callable[[str], bool | None],
    *,
    good: int | None = None,
    bad: int | None = None,
    thread_count: int = 0,
    in_flight_bytes_max: int = 256 << 20,
) -> tuple[
    tuple[int, str, str] | None,
    list[tuple[int, str, str]],
    tuple[int, str, str],
    list[tuple[tuple[int, str, str], str, str, int, int]],
    int,
    int,
    int,
]:
    """`holdfast::Bisect`, or `BisectBy` of a function: number, name and path
    of the first bad step, the candidates and the last good one; probes with
    verdict, reason, leaves and bytes; steps, leaves and bytes in all."""

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
    chunk_bytes_target: int = 8 << 20,
    overwrite: bool = False,
    check: bool = True,
    sync: bool = True,
    thread_count: int = 0,
    in_flight_bytes_max: int = 256 << 20,
    progress: ProgressFn | None = None,
) -> dict[str, Any]:
    """`holdfast::Merge`: sources are (path, prefix)."""

def rescue(
    source: str,
    target: str,
    *,
    fill: str = "",
    compression: str | None = "zstd",
    sync: bool = True,
    thread_count: int = 0,
    in_flight_bytes_max: int = 256 << 20,
    progress: ProgressFn | None = None,
) -> dict[str, Any]:
    """`holdfast::Rescue`; lost: (leaf, file, offset, reason, filled)."""

class Follower:
    """`holdfast::Follower`; arrays: pairs of a leaf's name and its memory."""

    def __init__(
        self,
        root: str,
        arrays: Sequence[tuple[str, npt.NDArray[Any]]],
        *,
        thread_count: int = 0,
        in_flight_bytes_max: int = 256 << 20,
    ) -> None: ...
    # Step, path, delta_count, read_bytes, names of what has changed.
    def poll(self) -> tuple[int, str, int, int, list[str]] | None: ...
    @property
    def step(self) -> int | None: ...

def read_patches(
    path: str,
    *,
    thread_count: int = 0,
    in_flight_bytes_max: int = 256 << 20,
    progress: ProgressFn | None = None,
) -> list[
    tuple[str, tuple[int, ...], npt.NDArray[Any], npt.NDArray[Any]]
]:
    """`holdfast::ReadPatches`: name, shape of the array, indices, values."""

class VirtualFiles:
    """`holdfast::VirtualFiles`; an entry: name, is_directory, byte_count."""

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
    # Up to `byte_count` bytes; fewer at the end of the file.
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
    """`holdfast::TieredManagerOptions`; a directory may be any path-like."""

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
    thread_count: int
    def __init__(self) -> None: ...
    def set_save(
        self,
        *,
        zarr_format: int,
        use_ocdbt: bool,
        compression: str | None,
        chunk_bytes_target: int,
        ocdbt_target_data_file_bytes: int,
        sync: bool,
        fingerprints: bool,
        thread_count: int,
        in_flight_bytes_max: int,
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
    """`holdfast::TieredManager`. In a forked child it refuses to work."""

    def __init__(
        self,
        options: TieredManagerOptions,
        *,
        group: ProcessGroup | None = None,
        warn: Callable[[str], object] | None = None,  # called by any thread
    ) -> None: ...
    def should_save(self, step: int) -> bool: ...
    # The tree is kept until its elements are on the local tier.
    def save(
        self,
        step: int,
        tree: Tree,
        *,
        force: bool = False,
        is_shared: bool | None = None,  # None: as `save_every` there says
        files: dict[str, bytes] = ...,
    ) -> bool: ...
    # In place of `save`: the save fails on all ranks.
    def fail_save(self, step: int, error: BaseException) -> None: ...
    def wait_protected(self) -> None: ...
    def wait(self) -> None: ...
    # `read` is called by the thread that calls this; an InvalidArgumentError of
    # it is raised, a step whose damage it meets is passed over.
    def restore(
        self,
        read: Callable[[TierRestore, Checkpoint], object],
        step: int | None = None,
    ) -> TierRestore: ...
    def read_file(self, path: str) -> bytes: ...
    def steps(self) -> list[TierStepInfo]: ...
    def stats(self) -> TierStats: ...
    def close(self) -> None: ...
