"""Signals that handlers may wait for before they write.

Each save announces, under its own key, the signals that will be sent. A handler
that writes in the background waits for these signals. They are stored in the
key-value store of `jax.distributed` or, without one, in this process.

Units: seconds.
"""

from __future__ import annotations

import enum
import itertools
import threading
from collections.abc import Sequence

from holdfast.orbax import multihost

_DONE = "signal_action_success"


class HandlerAwaitableSignal(enum.Enum):
    """A signal that a handler can wait for.

    Attributes:
        AWAITABLE_SIGNALS_CONTRACT: not a signal, but the list of the signals
            that will be sent.
        STEP_DIRECTORY_CREATION: the checkpoint's directory exists.
        ITEM_DIRECTORY_CREATION: the item's directory exists.
    """

    AWAITABLE_SIGNALS_CONTRACT = "awaitable_signals_contract"
    STEP_DIRECTORY_CREATION = "step_directory_creation"
    ITEM_DIRECTORY_CREATION = "item_directory_creation"


class OperationIdGenerator:
    """Numbers saves, equally on all processes that save together."""

    _counter = itertools.count(1)
    _operation_id = 0

    @classmethod
    def next_operation_id(cls) -> int:
        """Begins the next operation."""
        cls._operation_id = next(cls._counter)
        return cls._operation_id

    @classmethod
    def get_current_operation_id(cls) -> str:
        """Returns the id of the latest operation."""
        return str(cls._operation_id)


class LocalStore:
    """Stores keys and values in this process.

    Thread-safety: any number of threads.
    """

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._changed = threading.Condition()

    def set(self, key: str, value: str) -> None:
        """Sets a value; replaces an existing value."""
        with self._changed:
            self._values[key] = value
            self._changed.notify_all()

    def get(self, key: str, timeout_secs: float) -> str | None:
        """Waits for a value and returns it; None if it is not set in time."""
        with self._changed:
            self._changed.wait_for(lambda: key in self._values, timeout_secs)
            return self._values.get(key)

    def find(self, key: str) -> str | None:
        """Returns the existing value, or None."""
        return self.get(key, 0)

    def remove_below(self, prefix: str) -> None:
        """Removes every key that begins with `prefix`."""
        with self._changed:
            for key in [k for k in self._values if k.startswith(prefix)]:
                del self._values[key]


class JaxStore:
    """Stores keys and values that all processes of `jax.distributed` see."""

    def __init__(self) -> None:
        self._client = multihost.get_jax_distributed_client()

    def set(self, key: str, value: str) -> None:
        """Sets a value; replaces an existing value."""
        self._client.key_value_set(key, value, allow_overwrite=True)

    def get(self, key: str, timeout_secs: float) -> str | None:
        """Waits for a value and returns it; None if it is not set in time."""
        timeout_ms = max(1, int(1000 * timeout_secs))
        try:
            text: str = self._client.blocking_key_value_get(key, timeout_ms)
        except Exception as error:
            if "DEADLINE_EXCEEDED" in str(error):
                return None
            raise
        return text

    def find(self, key: str) -> str | None:
        """Returns the existing value, or None."""
        if not hasattr(self._client, "key_value_try_get"):
            return self.get(key, 0)  # older releases of jax
        try:
            text: str = self._client.key_value_try_get(key)
        except Exception as error:
            if "NOT_FOUND" in str(error):
                return None
            raise
        return text

    def remove_below(self, prefix: str) -> None:
        """Removes the key `prefix`, or every key that begins with it."""
        self._client.key_value_delete(prefix)


_LOCAL = LocalStore()


def _store() -> LocalStore | JaxStore:
    if multihost.is_jax_distributed_client_initialized():
        return JaxStore()
    return _LOCAL


class AwaitableSignalsContract:
    """The signals that will be sent in an operation.

    Attributes:
        awaitable_signals_contract_prefix: prefix of the keys; processes that
            save into their own directories have different prefixes.
    """

    awaitable_signals_contract_prefix = "awaitable_signals_contract"

    @classmethod
    def key_of(cls, signal: HandlerAwaitableSignal, operation_id: str) -> str:
        """Returns the key of a signal."""
        prefix = cls.awaitable_signals_contract_prefix
        return f"{prefix}_{operation_id}/{signal.value}"

    @classmethod
    def get_awaitable_signals_from_contract(
        cls, operation_id: str | None = None
    ) -> Sequence[HandlerAwaitableSignal]:
        """Returns the signals that will be sent in an operation, if any.

        Args:
            operation_id: the operation; None means the latest operation.
        """
        signal = HandlerAwaitableSignal.AWAITABLE_SIGNALS_CONTRACT
        operation_id = operation_id or current_operation_id()
        names = _store().find(cls.key_of(signal, operation_id))
        if not names:
            return []
        return [HandlerAwaitableSignal(name) for name in names.split(",")]

    @classmethod
    def add_to_awaitable_signals_contract(
        cls, signals: Sequence[HandlerAwaitableSignal]
    ) -> None:
        """Announces that signals will be sent in the latest operation."""
        if not signals:
            return
        known = list(cls.get_awaitable_signals_from_contract())
        known.extend(s for s in signals if s not in known)
        signal = HandlerAwaitableSignal.AWAITABLE_SIGNALS_CONTRACT
        key = cls.key_of(signal, current_operation_id())
        _store().set(key, ",".join(s.value for s in known))

    @classmethod
    def remove_all_awaitable_signals(
        cls, operation_id: str | None = None
    ) -> None:
        """Removes an operation's signals.

        Args:
            operation_id: the operation; None means the latest operation.
        """
        operation_id = operation_id or current_operation_id()
        prefix = cls.awaitable_signals_contract_prefix
        _store().remove_below(f"{prefix}_{operation_id}/")


def current_operation_id() -> str:
    """Returns the id of the latest operation."""
    return OperationIdGenerator.get_current_operation_id()


def wait_for_signals(
    signals: Sequence[HandlerAwaitableSignal],
    *,
    timeout_secs: float,
    operation_id: str,
) -> None:
    """Waits until all signals have been set.

    Args:
        signals: the signals to wait for.
        timeout_secs: the time limit for each signal.
        operation_id: the operation that the signals belong to.

    Raises:
        TimeoutError: a signal was not set in time.
    """
    for signal in signals:
        key = AwaitableSignalsContract.key_of(signal, operation_id)
        if _store().get(key, timeout_secs) is None:
            raise TimeoutError(f"Timeout waiting for key '{key}'")


def set_signals(
    signals: Sequence[HandlerAwaitableSignal], *, operation_id: str
) -> None:
    """Sets signals.

    Args:
        signals: the signals to set.
        operation_id: the operation that the signals belong to.
    """
    for signal in signals:
        key = AwaitableSignalsContract.key_of(signal, operation_id)
        _store().set(key, _DONE)
