"""Signals that handlers may wait for before they write.

A save publishes, under its own key, which signals will come; a handler that
writes in the background waits for these. Signals use the key-value store of
`jax.distributed`, or without it a store in this process.

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
        AWAITABLE_SIGNALS_CONTRACT: not a signal, but the list of coming
            signals.
        STEP_DIRECTORY_CREATION: the checkpoint's directory exists.
        ITEM_DIRECTORY_CREATION: the item's directory exists.
    """

    AWAITABLE_SIGNALS_CONTRACT = "awaitable_signals_contract"
    STEP_DIRECTORY_CREATION = "step_directory_creation"
    ITEM_DIRECTORY_CREATION = "item_directory_creation"


class OperationIdGenerator:
    """Numbers of saves, the same on all processes that save together."""

    _counter = itertools.count(1)
    _operation_id = 0

    @classmethod
    def next_operation_id(cls) -> int:
        """Begins the next operation."""
        cls._operation_id = next(cls._counter)
        return cls._operation_id

    @classmethod
    def get_current_operation_id(cls) -> str:
        """The operation that has begun last."""
        return str(cls._operation_id)


class LocalStore:
    """Keys and values of this process.

    Thread-safety: any number of threads.
    """

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._changed = threading.Condition()

    def set(self, key: str, value: str) -> None:
        """Sets a value, whether there is one or not."""
        with self._changed:
            self._values[key] = value
            self._changed.notify_all()

    def get(self, key: str, timeout_secs: float) -> str | None:
        """The existing value, or one that comes in time; else None."""
        with self._changed:
            self._changed.wait_for(lambda: key in self._values, timeout_secs)
            return self._values.get(key)

    def find(self, key: str) -> str | None:
        """The existing value; else None."""
        return self.get(key, 0)

    def remove_below(self, prefix: str) -> None:
        """Forgets every key that begins so."""
        with self._changed:
            for key in [k for k in self._values if k.startswith(prefix)]:
                del self._values[key]


class JaxStore:
    """Keys and values that all processes of `jax.distributed` see."""

    def __init__(self) -> None:
        self._client = multihost.get_jax_distributed_client()

    def set(self, key: str, value: str) -> None:
        """Sets a value, whether there is one or not."""
        self._client.key_value_set(key, value, allow_overwrite=True)

    def get(self, key: str, timeout_secs: float) -> str | None:
        """The existing value, or one that comes in time; else None."""
        timeout_ms = max(1, int(1000 * timeout_secs))
        try:
            text: str = self._client.blocking_key_value_get(key, timeout_ms)
        except Exception as error:
            if "DEADLINE_EXCEEDED" in str(error):
                return None
            raise
        return text

    def find(self, key: str) -> str | None:
        """The existing value; else None."""
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
        """Forgets a key, or every key that begins so."""
        self._client.key_value_delete(prefix)


_LOCAL = LocalStore()


def _store() -> LocalStore | JaxStore:
    if multihost.is_jax_distributed_client_initialized():
        return JaxStore()
    return _LOCAL


class AwaitableSignalsContract:
    """The signals that come in an operation.

    Attributes:
        awaitable_signals_contract_prefix: prefix of the keys; processes that
            save into their own directories have different prefixes.
    """

    awaitable_signals_contract_prefix = "awaitable_signals_contract"

    @classmethod
    def key_of(cls, signal: HandlerAwaitableSignal, operation_id: str) -> str:
        """The key of a signal."""
        prefix = cls.awaitable_signals_contract_prefix
        return f"{prefix}_{operation_id}/{signal.value}"

    @classmethod
    def get_awaitable_signals_from_contract(
        cls, operation_id: str | None = None
    ) -> Sequence[HandlerAwaitableSignal]:
        """Returns the signals that come in an operation; may be empty.

        Args:
            operation_id: the operation; None means the last one.
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
        """Says that signals come in the last operation."""
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
        """Forgets an operation's signals.

        Args:
            operation_id: the operation; None means the last one.
        """
        operation_id = operation_id or current_operation_id()
        prefix = cls.awaitable_signals_contract_prefix
        _store().remove_below(f"{prefix}_{operation_id}/")


def current_operation_id() -> str:
    """The operation that has begun last."""
    return OperationIdGenerator.get_current_operation_id()


def wait_for_signals(
    signals: Sequence[HandlerAwaitableSignal],
    *,
    timeout_secs: float,
    operation_id: str,
) -> None:
    """Waits until all have been given.

    Args:
        signals: which.
        timeout_secs: for each.
        operation_id: whose.

    Raises:
        TimeoutError: one was not given in time.
    """
    for signal in signals:
        key = AwaitableSignalsContract.key_of(signal, operation_id)
        if _store().get(key, timeout_secs) is None:
            raise TimeoutError(f"Timeout waiting for key '{key}'")


def set_signals(
    signals: Sequence[HandlerAwaitableSignal], *, operation_id: str
) -> None:
    """Gives signals.

    Args:
        signals: which.
        operation_id: whose.
    """
    for signal in signals:
        key = AwaitableSignalsContract.key_of(signal, operation_id)
        _store().set(key, _DONE)
