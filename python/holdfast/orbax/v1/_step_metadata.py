"""The metadata of a step, and the metadata that all steps share."""

from __future__ import annotations

import dataclasses
import datetime
import pprint
from typing import Any, TypeVar, final

from holdfast.orbax.v1._metadata_types import (
    CheckpointMetadata as PathMetadata,
)

T = TypeVar("T")


@final
class CheckpointMetadata(PathMetadata[T]):
    """Metadata of a step, without its values.

    `metadata` may be passed to `load` as the abstract state. The object itself
    may be passed to a Checkpointer instead of the step's number.

    Attributes:
        step: the step's number.
        metrics: the metrics saved with the step, or None.
    """

    step: int
    metrics: Any | None

    def __init__(
        self,
        step: int,
        path: Any,
        *,
        metadata: T,
        init_timestamp_nsecs: int | None = None,
        commit_timestamp_nsecs: int | None = None,
        custom_metadata: Any | None = None,
        metrics: Any | None = None,
    ) -> None:
        super().__init__(
            path,
            metadata=metadata,
            init_timestamp_nsecs=init_timestamp_nsecs,
            commit_timestamp_nsecs=commit_timestamp_nsecs,
            custom_metadata=custom_metadata,
        )
        object.__setattr__(self, "step", step)
        object.__setattr__(self, "metrics", metrics)

    @property
    def time(self) -> datetime.datetime:
        """The time of the commit, in UTC.

        Raises:
            TypeError: the time is not known.
        """
        nsecs: Any = self.commit_timestamp_nsecs
        return datetime.datetime.fromtimestamp(
            nsecs / 1e9, tz=datetime.timezone.utc
        )

    def _facts(self) -> dict[str, str]:
        facts = super()._facts()
        return {"step": str(self.step), **facts, "metrics": str(self.metrics)}


@final
@dataclasses.dataclass(frozen=True, kw_only=True)
class RootMetadata:
    """The metadata that all steps share.

    Attributes:
        directory: the directory of all steps.
        custom_metadata: the user's JSON object.
    """

    directory: Any
    custom_metadata: Any | None = None

    def __repr__(self) -> str:
        facts = {
            "directory": str(self.directory),
            "custom_metadata": str(self.custom_metadata),
        }
        return f"RootMetadata({pprint.pformat(facts)})"
