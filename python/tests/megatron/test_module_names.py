"""Names that programs import from modules of holdfast.megatron."""

from __future__ import annotations

import pytest

from holdfast.megatron import optimizer


def test_the_hint_is_megatrons() -> None:
    theirs = pytest.importorskip("megatron.core.dist_checkpointing.optimizer")
    assert theirs.KEEP_VARS_HINT == optimizer.KEEP_VARS_HINT


def test_the_hint_says_what_to_do() -> None:
    assert "by passing `keep_vars=True`" in optimizer.KEEP_VARS_HINT
