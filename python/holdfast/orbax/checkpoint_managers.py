"""Managers and their policies: `orbax.checkpoint.checkpoint_managers`."""

from holdfast.orbax import preservation_policy as preservation_policy
from holdfast.orbax import save_decision_policy as save_decision_policy
from holdfast.orbax._manager.options import (
    CheckpointManagerOptions as CheckpointManagerOptions,
)
from holdfast.orbax._manager.options import (
    continuous_checkpointing_options as continuous_checkpointing_options,
)
from holdfast.orbax.abstract_checkpoint_manager import (
    AbstractCheckpointManager as AbstractCheckpointManager,
)
from holdfast.orbax.checkpoint_manager import (
    CheckpointManager as CheckpointManager,
)
from holdfast.orbax.preservation_policy import *  # noqa: F403
from holdfast.orbax.save_decision_policy import *  # noqa: F403
