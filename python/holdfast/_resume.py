"""Checks whether a resumed run continues exactly where it stopped.

A resumed run repeats itself bit by bit only with the same random state, the
same next batch, and the same values, libraries and flags. A small JSON object,
stored next to the tree, records all of these. A later process compares itself
with the record and reports what differs.
"""

from __future__ import annotations

import json
import os
import platform
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from holdfast import _torch_arrays, errors
from holdfast._api import PathLike
from holdfast._api import open as open_checkpoint
from holdfast._lazy import importing
from holdfast._pytree import jax_if_imported, joined, one_level
from holdfast._results import ResumeDifference, ResumeReport

__all__ = [
    "resume_check",
    "resume_record",
]

METADATA_KEY = "resume"
# Ordered so that a difference in one section may explain later ones.
_SECTIONS = (
    "step",
    "libraries",
    "settings",
    "flags",
    "devices",
    "rng",
    "data",
    "state",
)
# Larger integers are stored as strings: not every JSON reader supports them.
_EXACT_INT_MAX = 2**53
_SHOWN_TEXT_MAX = 80
# Distributions that affect what a program computes, by module name.
_LIBRARIES = {
    "flax": "flax",
    "grain": "grain",
    "holdfast": "holdfast",
    "jax": "jax",
    "jaxlib": "jaxlib",
    "ml_dtypes": "ml_dtypes",
    "numpy": "numpy",
    "optax": "optax",
    "tensorflow": "tensorflow",
    "torch": "torch",
    "transformers": "transformers",
}
_ENVIRONMENT = ("CUBLAS_WORKSPACE_CONFIG", "PYTHONHASHSEED", "XLA_FLAGS")
_ENVIRONMENT_PREFIXES = ("JAX_", "LIBTPU_", "NVIDIA_TF32_", "TF_")
_JAX_FLAGS = (
    "jax_default_dtype_bits",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_enable_x64",
    "jax_threefry_partitionable",
)


def resume_record(
    *,
    step: int,
    rng: Any = None,
    data: Any = None,
    state: Any = None,
    flags: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Returns the state that decides how a run continues, as a JSON object.

    Save it with the tree: `save(..., custom_metadata={"resume": record})`.

    Args:
      step: the last finished step.
      rng: a pytree of random states: jax keys, numpy's and torch's generators,
        `random.Random`, arrays, numbers.
      data: a pytree of everything the next batch depends on: data iterators
        with `state_dict()` or `get_state()`, arrays, numbers, strings.
      state: a pytree of arrays, such as the saved tree; each array is hashed
        (sha256 of its elements in C order, like `digest`).
      flags: the program's own settings by name, JSON values.

    Returns:
      The step; the versions of Python and of the imported libraries that affect
      results; the flags of jax and torch, and the environment variables that
      they read; the devices; and a fingerprint of each leaf.

    Raises:
      errors.InvalidArgumentError: a leaf's state cannot be determined.
    """
    record = {
        "step": {"": step},
        "libraries": _libraries(),
        "settings": dict(flags or {}),
        "flags": _flags(),
        "devices": _devices(),
        "rng": dict(_fingerprints(rng)),
        "data": dict(_fingerprints(data)),
        "state": dict(_fingerprints(state)),
    }
    # Convert to the form that is read back: tuples become lists, and keys
    # become strings.
    result: dict[str, Any] = json.loads(json.dumps(record))
    return result


def resume_check(
    record: PathLike | Mapping[str, Any],
    *,
    step: int,
    rng: Any = None,
    data: Any = None,
    state: Any = None,
    flags: Mapping[str, Any] | None = None,
) -> ResumeReport:
    """Compares this process with a record.

    Args:
      record: the result of `resume_record`, or a checkpoint whose custom
        metadata has it under "resume".
      step, rng, data, state, flags: as for `resume_record`. An argument that is
        missing here or in the record is not compared.

    Returns:
      The differences. The report is false if there are any.

    Raises:
      errors.NotFoundError: the checkpoint has no record; also the errors of
        `open`.
      errors.InvalidArgumentError: as for `resume_record`.
    """
    recorded = record if isinstance(record, Mapping) else _read(record)
    found = resume_record(
        step=step, rng=rng, data=data, state=state, flags=flags
    )
    differences = []
    count = 0
    for section in _SECTIONS:
        was, is_now = recorded.get(section) or {}, found[section]
        if not was or not is_now:
            continue
        for name in dict.fromkeys([*was, *is_now]):
            count += 1
            if was.get(name) != is_now.get(name):
                differences.append(
                    ResumeDifference(
                        joined([part for part in (section, name) if part]),
                        was.get(name),
                        is_now.get(name),
                    )
                )
    return ResumeReport(tuple(differences), count)


def _read(path: PathLike) -> Mapping[str, Any]:
    checkpoint = open_checkpoint(path)
    metadata = checkpoint.custom_metadata
    found = metadata.get(METADATA_KEY) if isinstance(metadata, dict) else None
    if not isinstance(found, dict):
        raise errors.NotFoundError(
            f"{os.fspath(path)}: no record in its custom metadata; save with"
            ' custom_metadata={"resume": holdfast.resume_record(...)}'
        )
    return found


def _libraries() -> dict[str, str]:
    import importlib.metadata

    versions = {"python": platform.python_version()}
    for module, distribution in _LIBRARIES.items():
        if module in sys.modules:
            try:
                versions[module] = importlib.metadata.version(distribution)
            except importlib.metadata.PackageNotFoundError:
                versions[module] = "unknown"
    return versions


def _flags() -> dict[str, Any]:
    found: dict[str, Any] = {
        f"environment.{name}": value
        for name, value in sorted(os.environ.items())
        if name in _ENVIRONMENT or name.startswith(_ENVIRONMENT_PREFIXES)
    }
    jax = jax_if_imported()
    if jax is not None:
        for name in _JAX_FLAGS:
            if hasattr(jax.config, name):
                found[name] = str(getattr(jax.config, name))
    torch = sys.modules.get("torch")
    if torch is not None:
        backends = torch.backends
        found |= {
            "torch.cudnn.allow_tf32": backends.cudnn.allow_tf32,
            "torch.cudnn.benchmark": backends.cudnn.benchmark,
            "torch.cudnn.deterministic": backends.cudnn.deterministic,
            "torch.default_dtype": str(torch.get_default_dtype()),
            "torch.deterministic": (
                torch.are_deterministic_algorithms_enabled()
            ),
            "torch.matmul_precision": torch.get_float32_matmul_precision(),
        }
    return found


def _devices() -> dict[str, Any]:
    found: dict[str, Any] = {}
    jax = jax_if_imported()
    if jax is not None:
        kinds = sorted({device.device_kind for device in jax.devices()})
        found |= {
            "jax.count": jax.device_count(),
            "jax.kind": ", ".join(kinds),
            "jax.processes": jax.process_count(),
        }
    torch = sys.modules.get("torch")
    if torch is not None:
        found["torch.cuda.count"] = torch.cuda.device_count()
    return found


def _fingerprints(
    value: Any, path: tuple[Any, ...] = ()
) -> Iterator[tuple[str, Any]]:
    if value is None:
        return
    told = _state_of(value)
    if told is not None:
        yield from _fingerprints(told(), path)
        return
    level = one_level(value)
    if level is None:
        yield joined(path), _fingerprint(value, joined(path))
        return
    for name, child in zip(level.names, level.children, strict=True):
        yield from _fingerprints(child, (*path, name))


def _state_of(value: Any) -> Callable[[], Any] | None:
    """Returns a function that reads the state of a generator or an iterator;
    None for other values."""
    if isinstance(value, np.random.Generator):
        return lambda: value.bit_generator.state
    if isinstance(value, np.random.RandomState):
        return lambda: value.get_state(legacy=False)
    if isinstance(value, random.Random):
        return lambda: {"state": repr(value.getstate())}
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Generator):
        return lambda: {"state": value.get_state()}
    if one_level(value) is not None or isinstance(value, type):
        return None
    for name in ("state_dict", "get_state"):
        method = getattr(value, name, None)
        if callable(method):
            return lambda: {"state": method()}
    return None


def _fingerprint(value: Any, name: str) -> Any:
    if isinstance(value, str) and len(value) <= _SHOWN_TEXT_MAX:
        return value
    if isinstance(value, int) and abs(value) <= _EXACT_INT_MAX:
        return value
    if isinstance(value, (int, float, complex)):
        return repr(value)  # as text, NaN equals NaN
    if isinstance(value, (str, bytes)):
        content = value.encode() if isinstance(value, str) else value
        return f"{type(value).__name__}, {_sha256(content)}"
    array = _as_array(value, name)
    if array is None or array.dtype.hasobject:
        raise errors.InvalidArgumentError(
            f"leaf {name!r}: cannot determine the state of a"
            f" {type(value).__name__}; want an array, a number, a string, a"
            " random generator, or something with state_dict() or get_state()"
        )
    elements = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    shape = ",".join(map(str, array.shape))
    return f"{array.dtype}[{shape}] {_sha256(elements.data)}"


def _sha256(content: bytes | memoryview) -> str:
    import hashlib  # loads a system library

    return hashlib.sha256(content).hexdigest()


def _as_array(
    value: Any, name: str
) -> np.ndarray[Any, np.dtype[Any]] | None:
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    if _torch_arrays.is_tensor(value):
        return _torch_arrays.as_numpy(value, name)
    jax = jax_if_imported()
    if jax is None:
        return None
    with importing:
        from holdfast import _jax_arrays
    if _jax_arrays.is_array(value):
        if _jax_arrays.is_key_dtype(value.dtype):
            value = jax.random.key_data(value)
        return np.asarray(value)
    return None
