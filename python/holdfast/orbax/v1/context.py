"""`Context`: the options that apply to the calls inside its `with` block."""

from __future__ import annotations

import contextvars
import copy
import dataclasses
from typing import Any

from holdfast._log import log
from holdfast.orbax.v1 import options as options_lib
from holdfast.orbax.v1.options import CheckpointLayout

__all__ = ["Context", "get_context"]

_CONTEXT: contextvars.ContextVar[Context | None] = contextvars.ContextVar(
    "holdfast_orbax_context", default=None
)

# The context and frozen ids that were active before each entered `with` block.
_OUTER: contextvars.ContextVar[tuple[Any, ...]] = contextvars.ContextVar(
    "holdfast_orbax_outer_contexts", default=()
)

# Maps attributes to options classes.
_OPTIONS: dict[str, type[Any]] = {
    "pytree": options_lib.PyTreeOptions,
    "array": options_lib.ArrayOptions,
    "asynchronous": options_lib.AsyncOptions,
    "multiprocessing": options_lib.MultiprocessingOptions,
    "file": options_lib.FileOptions,
    "checkpointables": options_lib.CheckpointablesOptions,
    "pathways": options_lib.PathwaysOptions,
    "deletion": options_lib.DeletionOptions,
    "memory": options_lib.MemoryOptions,
    "safetensors": options_lib.SafetensorsOptions,
    "atomicity": options_lib.AtomicityOptions,
}
# Maps constructor arguments to attributes.
_ATTRIBUTE_OF_ARGUMENT = {f"{name}_options": name for name in _OPTIONS}
_ATTRIBUTE_OF_ARGUMENT["async_options"] = "asynchronous"
del _ATTRIBUTE_OF_ARGUMENT["asynchronous_options"]


class Context:
    """Options for the calls inside `with Context() as ctx:`.

    Set options as attributes before entering the block
    (`ctx.array.saving.use_ocdbt = False`); inside it they cannot be changed.
    Each thread and each asyncio task has its own active context. A context that
    is made from another context starts with copies of that context's options.

    Args:
        context: supplies every option that no other argument sets.
        checkpoint_layout: "orbax", "safetensors" or "auto".
        pytree_options: replaces `context.pytree`; the other `..._options`
            arguments work in the same way.
    """

    array: options_lib.ArrayOptions
    asynchronous: options_lib.AsyncOptions
    atomicity: options_lib.AtomicityOptions
    checkpointables: options_lib.CheckpointablesOptions
    deletion: options_lib.DeletionOptions
    file: options_lib.FileOptions
    memory: options_lib.MemoryOptions
    multiprocessing: options_lib.MultiprocessingOptions
    pathways: options_lib.PathwaysOptions
    pytree: options_lib.PyTreeOptions
    safetensors: options_lib.SafetensorsOptions

    # Older names of the same options.
    array_options: options_lib.ArrayOptions
    async_options: options_lib.AsyncOptions
    checkpointables_options: options_lib.CheckpointablesOptions
    deletion_options: options_lib.DeletionOptions
    file_options: options_lib.FileOptions
    memory_options: options_lib.MemoryOptions
    multiprocessing_options: options_lib.MultiprocessingOptions
    pathways_options: options_lib.PathwaysOptions
    pytree_options: options_lib.PyTreeOptions
    safetensors_options: options_lib.SafetensorsOptions

    def __init__(
        self,
        context: Context | None = None,
        *,
        pytree_options: options_lib.PyTreeOptions | None = None,
        array_options: options_lib.ArrayOptions | None = None,
        async_options: options_lib.AsyncOptions | None = None,
        multiprocessing_options: options_lib.MultiprocessingOptions
        | None = None,
        file_options: options_lib.FileOptions | None = None,
        checkpointables_options: options_lib.CheckpointablesOptions
        | None = None,
        pathways_options: options_lib.PathwaysOptions | None = None,
        checkpoint_layout: CheckpointLayout | str | None = None,
        deletion_options: options_lib.DeletionOptions | None = None,
        memory_options: options_lib.MemoryOptions | None = None,
        safetensors_options: options_lib.SafetensorsOptions | None = None,
        atomicity_options: options_lib.AtomicityOptions | None = None,
    ) -> None:
        given = {
            name: value
            for name, value in locals().items()
            if name in _ATTRIBUTE_OF_ARGUMENT and value is not None
        }
        if given or checkpoint_layout is not None:
            log.warning(
                "Passing direct option objects to Context.__init__ is"
                " deprecated in favor of mutable dot-notation configuration"
                " (e.g. ctx.array.saving.use_ocdbt = ...). These keyword"
                " arguments will be removed in a future release."
            )
        values = vars(self)
        for argument, attribute in _ATTRIBUTE_OF_ARGUMENT.items():
            value = given.get(argument)
            if value is None and context is not None:
                value = getattr(context, attribute)
            values[attribute] = (
                _OPTIONS[attribute]() if value is None else copy.deepcopy(value)
            )
        if checkpoint_layout is None:
            checkpoint_layout = (
                CheckpointLayout.ORBAX
                if context is None
                else context.checkpoint_layout
            )
        values["_checkpoint_layout"] = CheckpointLayout(checkpoint_layout)

    def __getattr__(self, name: str) -> Any:
        # Older names, such as `array_options` for `array`.
        if name in _ATTRIBUTE_OF_ARGUMENT and name != "atomicity_options":
            return vars(self)[_ATTRIBUTE_OF_ARGUMENT[name]]
        raise AttributeError(f"'Context' object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OPTIONS or name in _ATTRIBUTE_OF_ARGUMENT:
            raise AttributeError(
                f"property {name!r} of 'Context' object has no setter"
            )
        object.__setattr__(self, name, value)

    @property
    def checkpoint_layout(self) -> CheckpointLayout:
        """The kind of checkpoint that paths are expected to hold."""
        layout: CheckpointLayout = vars(self)["_checkpoint_layout"]
        return layout

    @checkpoint_layout.setter
    def checkpoint_layout(self, value: CheckpointLayout | str) -> None:
        if id(self) in options_lib.FROZEN_IDS.get():
            raise RuntimeError(
                "Cannot mutate an active Context. Ensure all configuration "
                "options are set before entering the `with` context block."
            )
        vars(self)["_checkpoint_layout"] = CheckpointLayout(value)

    def __enter__(self) -> Context:
        outer = _CONTEXT.get(), options_lib.FROZEN_IDS.get()
        _OUTER.set((*_OUTER.get(), outer))
        _CONTEXT.set(self)
        options_lib.FROZEN_IDS.set(outer[1] | _option_ids(self))
        return self

    def __exit__(self, *args: object) -> None:
        *rest, (context, frozen) = _OUTER.get()
        _OUTER.set(tuple(rest))
        _CONTEXT.set(context)
        options_lib.FROZEN_IDS.set(frozen)


def get_context(default: Context | None = None) -> Context:
    """Returns the active context, else `default`, else a new context."""
    return _CONTEXT.get() or default or Context()


def _option_ids(context: Context) -> frozenset[int]:
    """Returns the ids of a context and of all its option objects."""
    ids = {id(context)}
    pending = [vars(context)[name] for name in _OPTIONS]
    while pending:
        value = pending.pop()
        if not dataclasses.is_dataclass(value) or id(value) in ids:
            continue
        ids.add(id(value))
        fields = dataclasses.fields(value)
        pending.extend(getattr(value, field.name) for field in fields)
    return frozenset(ids)
