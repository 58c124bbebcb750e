"""Objects that are closed at the end of a `with` block."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self


class ClosedAtExit:
    """Base of classes whose `close` is called at the end of a `with` block."""

    def close(self) -> None:
        """Ends the use of this object."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
