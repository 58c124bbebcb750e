"""holdfast.torch.save and restore: models, optimizers and other state, restored
in place."""

from __future__ import annotations

import collections
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ranks import run_ranks

import holdfast
from holdfast import errors

torch = pytest.importorskip("torch")
pytest.importorskip("ml_dtypes")
if not torch.distributed.is_available():
    pytest.skip("torch without torch.distributed", allow_module_level=True)
import torch.distributed.checkpoint  # noqa: E402

import holdfast.torch as ht  # noqa: E402


class Net(torch.nn.Module):
    def __init__(self, hidden: int = 4, tied: bool = True) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(7, hidden)
        self.body = torch.nn.Linear(hidden, hidden)
        self.norm = torch.nn.BatchNorm1d(hidden)
        self.head = torch.nn.Linear(hidden, 7, bias=False)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, x: Any) -> Any:
        return self.head(self.norm(self.body(self.embed(x))))


def make(seed: int = 0, optimizer: Any = torch.optim.AdamW) -> Any:
    torch.manual_seed(seed)
    model = Net()
    made = optimizer(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.MultiStepLR(made, [2, 5], gamma=0.5)
    return model, made, schedule


def step(model: Any, optimizer: Any, schedule: Any, number: int) -> float:
    generator = torch.Generator().manual_seed(number)
    x = torch.randint(0, 7, (16,), generator=generator)
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), x)
    loss.backward()
    optimizer.step()
    schedule.step()
    return float(loss)


OPTIMIZERS = [
    torch.optim.SGD,
    lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9),
    torch.optim.AdamW,
    lambda p, lr: torch.optim.Adam(p, lr=lr, amsgrad=True),
    torch.optim.Adagrad,
    torch.optim.Adafactor,
]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_resumed_run_goes_on_as_one_that_ran_through(
    ckpt: Path, optimizer: Any
) -> None:
    parts = make(0, optimizer)
    for number in range(4):
        step(*parts, number)
    model, made, schedule = parts
    ht.save(ckpt, model=model, optimizer=made, scheduler=schedule, epoch=3)
    want = [step(*parts, number) for number in range(4, 8)]

    model, made, schedule = others = make(1, optimizer)
    rest = ht.restore(ckpt, model=model, optimizer=made, scheduler=schedule)
    assert rest == {"epoch": 3}
    assert type(schedule.milestones) is collections.Counter
    betas = made.param_groups[0].get("betas")
    assert betas is None or type(betas) is tuple
    assert [step(*others, number) for number in range(4, 8)] == want


def test_a_load_without_a_target_keeps_the_moments(ckpt: Path) -> None:
    model, optimizer, schedule = make()
    step(model, optimizer, schedule, 0)
    holdfast.save(ckpt, {"optimizer": optimizer.state_dict()})
    state = holdfast.load(ckpt, arrays="torch")["optimizer"]
    fresh = torch.optim.AdamW(model.parameters())
    fresh.load_state_dict(state)
    for parameter in model.parameters():
        torch.testing.assert_close(
            fresh.state[parameter]["exp_avg"],
            optimizer.state[parameter]["exp_avg"],
        )


def test_background_saves_hold_what_was_there(ckpt: Path) -> None:
    model, optimizer, schedule = make()
    step(model, optimizer, schedule, 0)
    want = {k: v.clone() for k, v in model.state_dict().items()}
    future = ht.save(ckpt, model=model, optimizer=optimizer, background=True)
    step(model, optimizer, schedule, 1)
    future.result()
    fresh = Net()
    ht.restore(ckpt, model=fresh)
    for name, value in fresh.state_dict().items():
        assert torch.equal(value, want[name]), name


def test_every_mismatch_is_listed_and_nothing_is_changed(ckpt: Path) -> None:
    model, optimizer, schedule = make()
    step(model, optimizer, schedule, 0)
    ht.save(ckpt, model=model, optimizer=optimizer, scheduler=schedule)
    other = Net(hidden=6, tied=False).double()
    other.extra = torch.nn.Linear(2, 2)
    del other.norm
    before = {k: v.clone() for k, v in other.state_dict().items()}
    different = torch.optim.AdamW(list(other.parameters())[:3])
    with pytest.raises(ValueError) as caught:
        ht.restore(
            ckpt, model=other, optimizer=different, scaler=torch.nn.ReLU()
        )
    text = str(caught.value)
    assert isinstance(caught.value, errors.InvalidArgumentError)
    for line in (
        "model.extra.weight",
        "model.extra.bias",
        "model.norm.running_mean",
        "model.norm.num_batches_tracked",
        "model.body.weight ((4, 4) in the checkpoint, (6, 6) here)",
        "model.head.weight (float32 in the checkpoint, float64 here)",
        "optimizer.param_groups.0 (5 parameters in the checkpoint, 3 here)",
        "optimizer.state.0.exp_avg ((7, 4) in the checkpoint, (7, 6) here)",
        "optimizer.state.4.exp_avg",
        "scaler",
    ):
        assert f"\n  {line}\n" in text + "\n", line
    assert text.index("missing") < text.index("unexpected")
    for name, value in other.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_not_strict_takes_what_fits(ckpt: Path) -> None:
    model, _, _ = make()
    ht.save(ckpt, model=model, note="x")
    other = Net(tied=False).double()
    other.extra = torch.nn.Linear(2, 2)
    del other.norm
    extra = other.extra.weight.clone()
    assert ht.restore(ckpt, model=other, strict=False, nothing=3) == {
        "note": "x"
    }
    assert torch.equal(other.body.weight, model.body.weight.double())
    assert torch.equal(other.extra.weight, extra)
    with pytest.raises(ValueError, match="of another shape"):
        ht.restore(ckpt, model=Net(hidden=6), strict=False)


def test_a_model_on_meta_is_materialised(ckpt: Path) -> None:
    model, _, _ = make()
    ht.save(ckpt, model=model)
    with torch.device("meta"):
        empty = Net()
    empty.body.weight.requires_grad_(False)
    ht.restore(ckpt, model=empty)
    assert not any(each.is_meta for each in empty.parameters())
    assert empty.head.weight is empty.embed.weight
    assert not empty.body.weight.requires_grad
    assert isinstance(empty.body.weight, torch.nn.Parameter)
    for name, value in empty.state_dict().items():
        assert torch.equal(value, model.state_dict()[name]), name
    with torch.device("meta"):
        empty = Net()
    optimizer = torch.optim.SGD(model.parameters())
    ht.save(ckpt, model=model, optimizer=optimizer, overwrite=True)
    optimizer = torch.optim.SGD(empty.parameters())
    with pytest.raises(ValueError, match="restore the model first"):
        ht.restore(ckpt, model=empty, optimizer=optimizer)


def test_wrapped_models_are_the_modules_inside(ckpt: Path) -> None:
    model = Net()
    ht.save(ckpt, model=torch.compile(model))
    assert "model.body.weight" in holdfast.open(ckpt)
    fresh = Net()
    ht.restore(ckpt, model=torch.nn.DataParallel(fresh))
    assert torch.equal(fresh.body.weight, model.body.weight)


def test_several_models_and_plain_values(ckpt: Path) -> None:
    models = {"actor": Net(), "critics": [Net(), Net()]}
    values = {"size": (1, 2.5, "x"), "rng": torch.arange(5), "none": None}
    ht.save(ckpt, model=models, **values)
    fresh = {"actor": Net(), "critics": [Net(), Net()]}
    rest = ht.restore(ckpt, model=fresh, size=(0, 0.0, ""))
    assert rest["size"] == (1, 2.5, "x") and rest["none"] is None
    assert torch.equal(rest["rng"], torch.arange(5))
    pairs = [(models["actor"], fresh["actor"])]
    pairs += list(zip(models["critics"], fresh["critics"], strict=True))
    for one, other in pairs:
        assert torch.equal(one.body.weight, other.body.weight)
    with pytest.raises(ValueError, match=r"missing.*\n.*model.critics.2"):
        ht.restore(ckpt, model={**fresh, "critics": [Net(), Net(), Net()]})


def test_a_file_of_torch_save_can_be_restored(tmp_path: Path) -> None:
    model, optimizer, schedule = parts = make()
    step(*parts, 0)
    torch.save(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict()},
        tmp_path / "a.pt",
    )
    fresh, other, _ = make(1)
    ht.restore(tmp_path / "a.pt", model=fresh, optimizer=other)
    assert torch.equal(fresh.body.weight, model.body.weight)
    for old, new in zip(
        optimizer.state.values(), other.state.values(), strict=True
    ):
        assert torch.equal(old["exp_avg_sq"], new["exp_avg_sq"])


def test_a_checkpoint_of_dcp_can_be_restored(tmp_path: Path) -> None:
    dcp = torch.distributed.checkpoint
    model, optimizer, schedule = parts = make()
    step(*parts, 0)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    dcp.save(state, checkpoint_id=tmp_path / "torch")
    dcp.save(state, storage_writer=ht.StorageWriter(tmp_path / "holdfast"))
    for name in ("torch", "holdfast"):
        fresh, other, _ = make(1)
        ht.restore(tmp_path / name, model=fresh, optimizer=other)
        assert torch.equal(fresh.body.weight, model.body.weight)
        for old, new in zip(
            optimizer.state.values(), other.state.values(), strict=True
        ):
            assert torch.equal(old["exp_avg_sq"], new["exp_avg_sq"])


class Extra(torch.nn.Linear):
    def __init__(self, extra: Any) -> None:
        super().__init__(3, 2)
        self.extra = extra
        self.got: Any = None

    def get_extra_state(self) -> Any:
        return self.extra

    def set_extra_state(self, state: Any) -> None:
        self.got = state


def bytes_io() -> io.BytesIO:
    file = io.BytesIO()
    torch.save({"amax": torch.ones(2)}, file)
    return file


@pytest.mark.parametrize(
    "extra",
    [
        torch.empty(0, dtype=torch.uint8),
        torch.empty(2, 0, dtype=torch.bfloat16),
        torch.tensor([1, 2], dtype=torch.uint8),
        bytes_io(),
        b"raw",
        {"scale": torch.empty(0), "steps": [1, 2]},
    ],
    ids=str,
)
@pytest.mark.parametrize("background", [False, True])
def test_extra_state_of_any_kind(
    ckpt: Path, extra: Any, background: bool
) -> None:
    model = torch.nn.Sequential(Extra(extra))
    saved = ht.save(ckpt, model=model, background=background)
    if background:
        saved.result()
    # The model to restore may have another extra state before.
    other = torch.nn.Sequential(Extra(torch.ones(4)))
    ht.restore(ckpt, model=other)
    assert torch.equal(other[0].weight, model[0].weight)
    got = other[0].got
    if isinstance(extra, torch.Tensor):
        assert torch.equal(got, extra) and got.dtype == extra.dtype
    elif isinstance(extra, io.BytesIO):
        assert torch.load(got, weights_only=True)["amax"].tolist() == [1, 1]
    elif isinstance(extra, dict):
        assert got["scale"].shape == (0,) and got["steps"] == [1, 2]
    else:
        assert got == extra
    assert holdfast.verify(ckpt)


def test_parameters_without_elements(ckpt: Path) -> None:
    def made() -> tuple[Any, Any]:
        model = torch.nn.ParameterDict(
            {
                "lora": torch.nn.Parameter(torch.empty(0, 4)),
                "w": torch.nn.Parameter(torch.ones(2)),
            }
        )
        optimizer = torch.optim.AdamW(model.parameters())
        return model, optimizer

    model, optimizer = made()
    sum(each.sum() for each in model.values()).backward()
    optimizer.step()
    ht.save(ckpt, model=model, optimizer=optimizer)
    other, its = made()
    ht.restore(ckpt, model=other, optimizer=its)
    assert torch.equal(other["w"], model["w"])
    assert other["lora"].shape == (0, 4)
    moment = its.state[other["lora"]]["exp_avg"]
    assert moment.shape == (0, 4) and its.state[other["w"]]["step"] == 1
    loaded = ht.load(ckpt)
    assert loaded["model"]["lora"].shape == (0, 4)
    wrong = torch.nn.ParameterDict(
        {
            "lora": torch.nn.Parameter(torch.empty(0, 5)),
            "w": torch.nn.Parameter(torch.ones(2)),
        }
    )
    with pytest.raises(ValueError, match=r"model.lora \(\(0, 4\)"):
        ht.restore(ckpt, model=wrong, strict=False)


def test_stock_orbax_reads_them(ckpt: Path) -> None:
    ocp = pytest.importorskip("orbax.checkpoint")
    model, optimizer, schedule = parts = make()
    step(*parts, 0)
    ht.save(ckpt, model=model, optimizer=optimizer, scheduler=schedule)
    got = ocp.PyTreeCheckpointer().restore(ckpt)
    np.testing.assert_array_equal(
        got["optimizer"]["state"]["0"]["exp_avg"],
        optimizer.state_dict()["state"][0]["exp_avg"].numpy(),
    )


def test_what_cannot_be_saved(ckpt: Path) -> None:
    with pytest.raises(ValueError, match="nothing to save"):
        ht.save(ckpt)
    with pytest.raises(ValueError, match="thing"):
        ht.save(ckpt, thing=object())
    assert not ckpt.exists()


def test_damage_changes_nothing(ckpt: Path) -> None:
    model = torch.nn.Linear(300, 300)
    ht.save(ckpt, model=model)
    largest = max(
        (file for file in ckpt.rglob("*") if file.is_file()),
        key=lambda file: file.stat().st_size,
    )
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 1
    largest.write_bytes(content)
    fresh = torch.nn.Linear(300, 300)
    before = fresh.weight.clone()
    with pytest.raises(errors.DataLossError):
        ht.restore(ckpt, model=fresh)
    assert torch.equal(fresh.weight, before)


def test_fsdp2_on_other_numbers_of_ranks(tmp_path: Path) -> None:
    run_ranks("torch_state_ranks.py", 2, "save", tmp_path)
    run_ranks("torch_state_ranks.py", 3, "restore", tmp_path)
    run_ranks("torch_state_ranks.py", 2, "mismatch", tmp_path)
    # Restores in one process, without FSDP.
    saved = torch.load(tmp_path / "whole.pt", weights_only=True)
    model = torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.Linear(10, 6))
    optimizer = torch.optim.AdamW(model.parameters())
    assert ht.restore(tmp_path / "c", model=model, optimizer=optimizer) == {
        "step": 2
    }
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, saved["model"][name])
    for i, state in enumerate(optimizer.state.values()):
        torch.testing.assert_close(
            state["exp_avg"], saved["moments"][i], msg=str(i)
        )
