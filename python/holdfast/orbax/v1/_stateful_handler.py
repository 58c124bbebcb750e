"""Objects that save and load themselves."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, ClassVar

from holdfast.orbax.v1._handler_types import StatefulCheckpointable
from holdfast.orbax.v1.path import PathAwaitingCreation


class StatefulCheckpointableHandler:
    """Lets an object save and load itself in its directory."""

    TYPESTR: ClassVar[str] = (
        "orbax.checkpoint.experimental.v1._src.handlers"
        ".stateful_checkpointable_handler.StatefulCheckpointableHandler"
    )

    async def save(
        self,
        directory: PathAwaitingCreation,
        checkpointable: StatefulCheckpointable,
    ) -> Awaitable[None]:
        """Calls `checkpointable.save(directory)`."""
        return await checkpointable.save(directory)

    async def load(
        self,
        directory: Any,
        abstract_checkpointable: StatefulCheckpointable | None = None,
    ) -> Awaitable[StatefulCheckpointable]:
        """Calls `abstract_checkpointable.load(directory)`; returns the object.

        Raises:
            ValueError: `abstract_checkpointable` is None.
        """
        target = abstract_checkpointable
        if target is None:
            raise ValueError(
                "To restore a `StatefulCheckpointable`, you must pass an "
                "instance of the object."
            )
        background = await target.load(directory)

        async def finish() -> StatefulCheckpointable:
            await background
            return target

        return finish()

    async def metadata(self, directory: Any) -> Any:
        """Always raises.

        Raises:
            NotImplementedError: always, because only the object can read its
                files.
        """
        raise NotImplementedError(
            "Metadata retrieval is not supported for objects implementing "
            "`StatefulCheckpointable`."
        )

    def is_handleable(self, checkpointable: Any) -> bool:
        """Returns whether the object has `save` and `load`."""
        return isinstance(checkpointable, StatefulCheckpointable)

    def is_abstract_handleable(
        self, abstract_checkpointable: Any
    ) -> bool | None:
        """Returns whether the object has `save` and `load`."""
        return isinstance(abstract_checkpointable, StatefulCheckpointable)
