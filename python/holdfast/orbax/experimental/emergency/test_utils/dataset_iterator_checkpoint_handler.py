"""`orbax.checkpoint.experimental.emergency.test_utils.dataset_iterator_checkpoint_handler`:
names alone."""

from __future__ import annotations

from holdfast.orbax.experimental.emergency._refusal import Refused

__all__ = [
    "DatasetIteratorCheckpointHandler",
    "DatasetIteratorCheckpointRestore",
    "DatasetIteratorCheckpointSave",
]


class DatasetIteratorCheckpointHandler(Refused):
    """Not supported yet: making one says so."""


class DatasetIteratorCheckpointRestore(Refused):
    """Not supported yet: making one says so."""


class DatasetIteratorCheckpointSave(Refused):
    """Not supported yet: making one says so."""
