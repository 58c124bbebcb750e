"""Recorded restore requests give Orbax's results and errors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

jax = pytest.importorskip("jax")
pytest.importorskip("ml_dtypes")

import replay_cases  # noqa: E402

CASES = replay_cases.recorded("restore_cases.json")

# TensorStore's messages about damaged or missing bytes. holdfast's messages are
# different, and name the leaf and the file.
STORAGE_ERRORS = (
    "DATA_LOSS:",
    "FAILED_PRECONDITION: Error opening",
    "FAILED_PRECONDITION: Error reading",
    "NOT_FOUND: Error opening",
    "NOT_FOUND: chunk",
    "OUT_OF_RANGE:",
    "Unpack failed",
)


# The requests were recorded with 64-bit types.
pytestmark = pytest.mark.usefixtures("wide_types")


def check_error(error: Exception, wanted: dict[str, Any], case: Path) -> None:
    classes = {cls.__name__ for cls in type(error).__mro__}
    assert wanted["class"] in classes, f"{type(error)}: {error}"
    message = replay_cases.message_of(error, case)
    if wanted["message"].startswith(STORAGE_ERRORS):
        assert re.match("[A-Z_]+: ", message), message
        assert "leaf " in message or "$CASE/" in message, message
        return
    assert wanted["message"].strip()[:4000] in message


@pytest.mark.filterwarnings("ignore:Sharding info not provided")
@pytest.mark.parametrize("request_", CASES, ids=[c["id"] for c in CASES])
def test_as_recorded(
    corpus: Path, tmp_path: Path, request_: dict[str, Any]
) -> None:
    case = replay_cases.prepare(corpus, request_, tmp_path)
    wanted = request_["expect"]
    if wanted["ok"]:
        assert replay_cases.run(request_, case) == wanted["result"]
        return
    with pytest.raises(Exception) as caught:
        replay_cases.run(request_, case)
    check_error(caught.value, wanted["error"], case)
