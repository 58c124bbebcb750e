"""Tests the game itself: it must be able to fail, to shrink and to replay."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from model import Model, Need, Saved  # noqa: E402
from run_world import seeds  # noqa: E402
from shrink import shrunk  # noqa: E402
from trees import problem, problem_of_part, tree  # noqa: E402

RUN = Path(__file__).parent / "run_world.py"


def run(*words: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, str(RUN), *words],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def replay(tmp_path: Path, words: list[dict[str, Any]]) -> tuple[int, str]:
    file = tmp_path / "world.json"
    file.write_text(json.dumps(words))
    code, text = run("--replay", str(file), "--plain")
    return code, text.splitlines()[-1]


def save(place: str, value: int, **more: Any) -> dict[str, Any]:
    return {"op": "save", "at": f"absolute:{place}", "value": value, **more}


def delta(place: str, value: int, base: str) -> dict[str, Any]:
    words = save(place, value, base=f"absolute:{base}")
    return words | {"op": "save a delta"}


def test_a_world_in_which_nothing_happens_is_whole(tmp_path: Path) -> None:
    words = [save("A/1", 1), delta("A/2", 2, "A/1"), save("A/3", 3)]
    assert replay(tmp_path, words) == (0, "nothing is broken")


def test_a_broken_door_is_found_and_shrunk(tmp_path: Path) -> None:
    code, text = run(
        "--worlds", "2", "--plain", "--jobs", "1", "--out", str(tmp_path),
        "--broken-door", "digest",
    )  # fmt: skip
    assert code == 1 and "by digest" in text and "2 worlds failed" in text
    records = [json.loads(file.read_text()) for file in tmp_path.iterdir()]
    assert any(len(record["operations"]) == 1 for record in records)
    assert records[0]["books"]


@pytest.mark.parametrize(
    "spoil",
    [
        # The model does not record sabotage, so the game must fail.
        {"op": "sabotage", "at": "A/1", "how": "flip"},
        {"op": "sabotage", "at": "A/1", "how": "remove"},
        {"op": "sabotage", "at": "A/1", "how": "swap"},
    ],
)
def test_what_holdfast_would_lose_is_found(
    tmp_path: Path, spoil: dict[str, Any]
) -> None:
    words = [save("A/1", 1), save("A/2", 2), spoil]
    code, text = replay(tmp_path, words)
    assert code == 1, text
    wanted = "wrong (whole)" if spoil["how"] == "swap" else "lost (whole)"
    assert text.startswith(wanted), text


def test_damage_by_a_stranger_is_not_ours(tmp_path: Path) -> None:
    words = [save("A/1", 1), delta("A/2", 2, "A/1")]
    for which in (0.1, 0.5, 0.9):
        harm = {"op": "damage", "at": "A/1", "kind": "flip", "which": which}
        assert replay(tmp_path, [*words, harm])[0] == 0


def test_operations_that_make_no_sense_are_left_out(tmp_path: Path) -> None:
    words = [
        {"op": "prune", "root": "absolute:A", "rules": [], "dry": False},
        delta("A/2", 2, "A/1"),
        {"op": "materialize", "source": "absolute:A/2", "target": ""},
    ]
    assert replay(tmp_path, words)[0] == 0


def test_shrinking_keeps_what_fails() -> None:
    words = [{"op": "x", "n": n, "at": f"dots:{n}"} for n in range(20)]

    def fails(candidate: list[dict[str, Any]]) -> bool:
        kept = {word["n"] for word in candidate}
        return {3, 17} <= kept

    short = shrunk(words, fails)
    assert [word["n"] for word in short] == [3, 17]
    assert short[0]["at"] == "absolute:3"


def test_a_third_of_the_seeds_is_kept() -> None:
    def first(kept: bool) -> list[int]:
        found = seeds(0, kept=kept)
        return [next(found) for _ in range(6)]

    assert first(False) == [0, 1, 3, 4, 6, 7]
    assert first(True) == [2, 5, 8, 11, 14, 17]


def chain() -> Model:
    model = Model()
    model.put("A/1", Saved(1, 1, "whole"))
    model.put("A/2", Saved(2, 2, "delta", needs=(Need("1", True, 1),)))
    return model


def test_books_of_a_base_that_goes() -> None:
    model = chain()
    model.take(["A/1"], to_trash=True)  # by holdfast: A/2 must still load
    assert model.is_sound("A/2")
    model = chain()
    model.drop("A/1")  # by a stranger
    assert not model.is_sound("A/2")
    model = chain()
    model.put("A/1", Saved(9, 9, "whole"))
    assert model.is_sound("A/2")
    model = chain()
    model.copied("A", "B", is_move=True)
    assert model.is_sound("B/2") and not model.is_sound("A/2")
    model.copied("B/2", "x", is_move=False)
    assert model.is_sound("B/2") and not model.is_sound("x")


def test_books_follow_links() -> None:
    model = chain()
    model.links = {"home": "A", "A/latest": "A/2"}
    assert model.resolve("home/latest") == "A/2"
    assert model.resolve("home/1") == "A/1"


def test_trees_are_compared() -> None:
    assert problem(tree(4), tree(4)) is None
    assert problem(tree(4), tree(5)) is not None
    part = {"nest": {"h": tree(4)["nest"]["h"]}}
    assert problem_of_part(part, tree(4)) is None
    part["nest"]["h"] = part["nest"]["h"] + 1
    assert problem_of_part(part, tree(4)) is not None
