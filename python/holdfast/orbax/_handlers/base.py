"""The interface of handlers, which save and restore one object."""

from __future__ import annotations

import abc
from typing import Any

from holdfast.orbax._compat.orbax_classes import stands_for_orbaxs

ORBAX_HANDLERS = "orbax.checkpoint._src.handlers"


def recorded_name(handler_type: type[Any]) -> str:
    """Returns a handler's name in `_CHECKPOINT_METADATA`.

    Standard handlers use Orbax's name, their TYPESTR, so that Orbax chooses the
    same handlers. Subclasses use their own names.
    """
    own = f"{handler_type.__module__}.{handler_type.__qualname__}"
    return str(vars(handler_type).get("TYPESTR", own))


@stands_for_orbaxs
class CheckpointHandler(abc.ABC):
    """The base class of handlers; a Checkpointer makes their work atomic.

    Handlers that derive from Orbax's class of the same name count as derived
    from this class.
    """

    @abc.abstractmethod
    def save(self, directory: Any, *args: Any, **kwargs: Any) -> Any:
        """Writes an object into an existing directory."""

    @abc.abstractmethod
    def restore(self, directory: Any, *args: Any, **kwargs: Any) -> Any:
        """Reads the object back."""

    def metadata(self, directory: Any) -> Any | None:
        """Returns the object's metadata without reading the complete object."""
        return None

    def finalize(self, directory: Any) -> None:  # noqa: B027
        """Does nothing; called once after all writes and before the commit."""

    def close(self) -> None:  # noqa: B027
        """Releases everything that the handler holds."""

    @classmethod
    def typestr(cls) -> str:
        """Returns the string that names this kind of handler in checkpoints."""
        return recorded_name(cls)


@stands_for_orbaxs
class AsyncCheckpointHandler(CheckpointHandler):
    """A handler that can also write in the background."""

    @abc.abstractmethod
    async def async_save(
        self, directory: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Copies the object; returns futures that write it."""
