"""The options for writing a checkpoint's OCDBT database, as plain data."""

from __future__ import annotations

import dataclasses
import enum
import re
from typing import Any

from holdfast import _engine

PROCESS_SUBDIR_PREFIX = "ocdbt.process_"
REPLICA_SUBDIR_SUFFIX = "replica_"


@dataclasses.dataclass(frozen=True)
class OcdbtProcessSpec:
    """Names the subdirectory that one process writes.

    Attributes:
        process_id: letters and digits.
        use_replica_suffix: use `ocdbt.process_replica_<id>` instead of
            `ocdbt.process_<id>`.

    Raises:
        ValueError: `process_id` contains other characters.
    """

    process_id: str
    use_replica_suffix: bool = False

    def __post_init__(self) -> None:
        _engine.check_ocdbt_process_id(self.process_id)

    def __str__(self) -> str:
        suffix = REPLICA_SUBDIR_SUFFIX if self.use_replica_suffix else ""
        return f"{PROCESS_SUBDIR_PREFIX}{suffix}{self.process_id}"

    @classmethod
    def parse(cls, s: str) -> OcdbtProcessSpec:
        """Parses the name of a subdirectory.

        Raises:
            ValueError: no process writes a subdirectory with this name.
        """
        match = re.fullmatch(
            rf"{re.escape(PROCESS_SUBDIR_PREFIX)}"
            rf"({REPLICA_SUBDIR_SUFFIX})?([A-Za-z0-9]+)",
            s,
        )
        if match is None:
            raise ValueError(f"Bad string '{s}' for Orbax/OCDBT process spec")
        return cls(match[2], match[1] is not None)


@enum.unique
class OcdbtWriteMode(enum.Enum):
    """The purpose for which a database is opened.

    WRITE: values of one process. MERGE: the parent of the processes'
    databases. COMMIT_TEMPORARY: nodes from a temporary directory.
    """

    WRITE = "write"
    MERGE = "merge"
    COMMIT_TEMPORARY = "commit_temporary"


@dataclasses.dataclass(frozen=True)
class OcdbtKvStoreWriteOptions:
    """How a database is written.

    Attributes:
        mode: the purpose.
        target_data_file_size: bytes at which a data file is closed; 0 means no
            limit; None means 2 GiB, or 400 MiB on gs://.
        store_ocdbt_metadata_and_values_separately: store nodes and values in
            different files.
    """

    mode: OcdbtWriteMode
    target_data_file_size: int | None = None
    store_ocdbt_metadata_and_values_separately: bool = False


@dataclasses.dataclass(frozen=True)
class OcdbtTemporaryMetadataContext:
    """Stores nodes and manifest in `path` until they are committed."""

    path: Any
