"""Handlers, trees and readers that handler tests share."""

from __future__ import annotations

import decimal
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from meshes import sharding

jax = pytest.importorskip("jax")


class Written:
    """A future that does its work when `result` is called."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work

    def result(self, timeout: float | None = None) -> Any:
        return self._work()


def decimal_handler(package: Any, calls: list[Any] | None = None) -> Any:
    """Returns a handler that writes decimal numbers as JSON files."""

    class DecimalHandler(package.type_handlers.TypeHandler):  # type: ignore[misc]
        def typestr(self) -> str:
            return "Decimal"

        async def metadata(self, infos: Any) -> Any:
            metadata = package.metadata.value.Metadata
            return [metadata(i.name, i.parent_dir) for i in infos]

        async def serialize(
            self, values: Any, infos: Any, args: Any = None
        ) -> Any:
            self._note("serialize", infos, args)

            def work() -> None:
                for value, info in zip(values, infos, strict=True):
                    info.path.mkdir(exist_ok=True)
                    text = json.dumps(str(value))
                    (info.path / "value.json").write_text(text)

            return [Written(work)]

        async def deserialize(self, infos: Any, args: Any = None) -> Any:
            self._note("deserialize", infos, args)
            texts = [(i.path / "value.json").read_text() for i in infos]
            return [decimal.Decimal(json.loads(text)) for text in texts]

        def finalize(self, directory: Any) -> None:
            if calls is not None:
                calls.append(("finalize", os.fspath(directory)))

        def _note(self, what: str, infos: Any, args: Any) -> None:
            if calls is None:
                return
            calls.append(
                (
                    what,
                    [
                        (
                            i.name,
                            str(i.keypath),
                            i.value_typestr,
                            i.is_ocdbt_checkpoint,
                            i.use_zarr3,
                            i.use_compression,
                            i.skip_deserialize,
                        )
                        for i in infos
                    ],
                    [repr(arg) for arg in args],
                )
            )

    return DecimalHandler()


class Boxed:
    """A value that holds an array."""

    def __init__(self, array: Any) -> None:
        self.array = array


def boxed_handler(package: Any) -> Any:
    """Returns a handler that delegates to NumpyHandler."""

    class BoxedHandler(package.type_handlers.TypeHandler):  # type: ignore[misc]
        def __init__(self) -> None:
            self._arrays = package.type_handlers.NumpyHandler()

        def typestr(self) -> str:
            return "Boxed"

        async def metadata(self, infos: Any) -> Any:
            return await self._arrays.metadata(infos)

        async def serialize(
            self, values: Any, infos: Any, args: Any = None
        ) -> Any:
            arrays = [value.array for value in values]
            return await self._arrays.serialize(arrays, infos, args)

        async def deserialize(self, infos: Any, args: Any = None) -> Any:
            arrays = await self._arrays.deserialize(infos, args)
            return [Boxed(array) for array in arrays]

    return BoxedHandler()


def registry(package: Any, calls: list[Any] | None = None) -> Any:
    handlers = package.type_handlers
    return handlers.create_type_handler_registry(
        (int, handlers.ScalarHandler()),
        (np.ndarray, handlers.NumpyHandler()),
        (str, handlers.StringHandler()),
        (decimal.Decimal, decimal_handler(package, calls)),
        (Boxed, boxed_handler(package)),
    )


def checkpointer(package: Any, **options: Any) -> Any:
    return package.Checkpointer(package.PyTreeCheckpointHandler(**options))


def own_tree() -> Any:
    return {
        "a": decimal.Decimal("1.50"),
        "b": [np.arange(5), decimal.Decimal("2"), {}],
        "box": Boxed(np.arange(600.0)),
        "n": 3,
        "s": "text",
    }


def metadata_of(path: Path) -> Any:
    return json.loads((path / "_METADATA").read_bytes())


def array_options(package: Any, **options: Any) -> Any:
    """Returns a registry like the shared one, but with other options of
    ArrayHandler."""
    handlers = package.type_handlers
    return handlers.create_type_handler_registry(
        (np.ndarray, handlers.NumpyHandler()),
        (jax.Array, handlers.ArrayHandler(**options)),
    )


def replicated() -> Any:
    return jax.device_put(np.arange(64.0).reshape(8, 8), sharding((8,)))
