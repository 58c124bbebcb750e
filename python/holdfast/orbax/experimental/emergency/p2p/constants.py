"""`orbax.checkpoint.experimental.emergency.p2p.constants`: constants."""

from __future__ import annotations

__all__ = [
    "CHUNK_SIZE",
    "CONNECT_TIMEOUT_SECONDS",
    "DATA_ITER_KEY",
    "P2P_RESTORE_DIR_NAME",
    "PROCESS_SUBDIR_PREFIX",
    "PYGRAIN_STATES_FILENAME",
    "SOCKET_BUFFER_SIZE",
    "STATE_SUBDIR",
    "TRANSFER_TIMEOUT_SECONDS",
]

CHUNK_SIZE = 4194304
CONNECT_TIMEOUT_SECONDS = 5
DATA_ITER_KEY = "data_iter"
P2P_RESTORE_DIR_NAME = "p2p_restore"
PROCESS_SUBDIR_PREFIX = "ocdbt.process_"
PYGRAIN_STATES_FILENAME = "pygrain_states.json"
SOCKET_BUFFER_SIZE = 16777216
STATE_SUBDIR = "state"
TRANSFER_TIMEOUT_SECONDS = 60
