"""The order of a save and of the work on the program's streams; snapshots."""

from __future__ import annotations

from typing import Any

import torch
import torch_trees as trees
from checking import Context, check

import holdfast
from holdfast import errors

# About a second of the device's time.
LONG_CYCLES = 2_000_000_000
MODES: tuple[Any, ...] = ("auto", "device", "host")


def _values(path: Any) -> set[float]:
    """Returns the elements of the saved tensors, which should be one."""
    tree = holdfast.load(path, arrays="torch")
    return {float(value) for x in tree.values() for value in x.unique()}


def _queue_work(device: str, size: int = 4096) -> None:
    """Queues work that takes long, both of memory and of arithmetic."""
    torch.cuda._sleep(LONG_CYCLES)
    if device != "cpu":
        x = torch.randn((size, size), device=device)
        for _ in range(20):
            x = x @ x


def _tensors(ctx: Context) -> dict[str, Any]:
    rows = 8 if ctx.pretend else 4096
    return {
        f"x{i}": torch.zeros((rows, 4096), device=ctx.device) for i in range(4)
    }


@check(seconds=90)
def written_just_before(ctx: Context) -> None:
    """A save on a busy stream stores what the queued work writes."""
    tree = _tensors(ctx)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        _queue_work(ctx.device)
        for x in tree.values():
            x.fill_(7)
        holdfast.save(ctx.scratch / "c", tree)
    assert _values(ctx.scratch / "c") == {7}


@check(seconds=90)
def written_on_another_stream(ctx: Context) -> None:
    """A save on a stream that waits for the writing stream stores what it
    writes."""
    tree = _tensors(ctx)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        _queue_work(ctx.device)
        for x in tree.values():
            x.fill_(3)
    torch.cuda.current_stream().wait_stream(side)
    holdfast.save(ctx.scratch / "c", tree)
    assert _values(ctx.scratch / "c") == {3}


@check(seconds=120)
def changed_just_after(ctx: Context) -> None:
    """A background save stores what the tensors were when it was called,
    although the program changes them as soon as it returns."""
    for mode in MODES:
        tree = _tensors(ctx)
        torch.cuda.synchronize()
        side = torch.cuda.Stream()
        path = ctx.scratch / mode
        with torch.cuda.stream(side):
            _queue_work(ctx.device)
            for x in tree.values():
                x.fill_(7)
            future = holdfast.save(path, tree, background=True, snapshot=mode)
            for x in tree.values():
                x.fill_(9)
        future.result()
        assert _values(path) == {7}, (mode, _values(path))


@check(seconds=120)
def training_loop(ctx: Context) -> None:
    """Ten background saves in a loop that changes the tensors after each."""
    tree = _tensors(ctx)
    futures = []
    for step in range(10):
        for x in tree.values():
            x.fill_(step)
        futures.append(
            holdfast.save(
                ctx.scratch / str(step),
                tree,
                background=True,
                snapshot=MODES[step % 3],
            )
        )
    for step, future in enumerate(futures):
        future.result()
        assert _values(ctx.scratch / str(step)) == {step}


@check()
def freed_during_a_background_save(ctx: Context) -> None:
    """The memory of tensors that the program drops is not reused too early."""
    for mode in MODES:
        tree = _tensors(ctx)
        for x in tree.values():
            x.fill_(5)
        future = holdfast.save(
            ctx.scratch / mode, tree, background=True, snapshot=mode
        )
        del x
        tree.clear()
        others = [each.fill_(6) for each in _tensors(ctx).values()]
        future.result()
        assert _values(ctx.scratch / mode) == {5}, mode
        del others


@check()
def stream_does_not_wait(ctx: Context) -> None:
    """The program's stream goes on while a save waits for another one."""
    ctx.needs_gpu()
    tree = _tensors(ctx)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(2 * LONG_CYCLES)
        for x in tree.values():
            x.fill_(2)
        future = holdfast.save(
            ctx.scratch / "c", tree, background=True, snapshot="device"
        )
        after = torch.cuda.Event()
        after.record(side)
    other = torch.ones(8, device=ctx.device) + 1
    torch.cuda.current_stream().synchronize()
    assert not after.query(), "the program's own stream has waited"
    assert other.sum() == 16
    future.result()
    assert _values(ctx.scratch / "c") == {2}


@check(by_itself=True)
def default_stream_of_the_thread(ctx: Context) -> None:
    """Saves on an external stream and on the default one of this thread."""
    tree = _tensors(ctx)
    side = torch.cuda.Stream()
    stream: Any = side
    if not ctx.pretend:
        stream = torch.cuda.ExternalStream(side.cuda_stream)
    with torch.cuda.stream(stream):
        _queue_work(ctx.device)
        for x in tree.values():
            x.fill_(4)
        holdfast.save(ctx.scratch / "c", tree)
    assert _values(ctx.scratch / "c") == {4}


def _fill(device: str, left_bytes: int) -> list[Any]:
    """Takes the device's memory, but for about `left_bytes`."""
    torch.cuda.empty_cache()
    taken = []
    piece = 1 << 30
    while piece >= 1 << 20:
        free = torch.cuda.mem_get_info(torch.device(device))[0]
        if free - piece < left_bytes:
            piece //= 2
            continue
        try:
            taken.append(torch.empty(piece, dtype=torch.int8, device=device))
        except torch.OutOfMemoryError:
            piece //= 2
    return taken


@check(fills_device=True, seconds=120)
def nearly_full_device(ctx: Context) -> None:
    """With little room on the device, "auto" copies to the host, "device" is
    refused in words, and a save that needs no copy works."""
    ctx.needs_gpu()
    tree = _tensors(ctx)
    for x in tree.values():
        x.fill_(1)
    torch.cuda.synchronize()
    taken = _fill(ctx.device, 32 << 20)
    holdfast.save(ctx.scratch / "plain", tree)
    error = trees.error_of(
        lambda: holdfast.save(
            ctx.scratch / "refused", tree, background=True, snapshot="device"
        )
    )
    assert isinstance(error, errors.ResourceExhaustedError), repr(error)
    assert "'x0'" in str(error) and 'snapshot="auto"' in str(error), error
    for mode in ("auto", "host"):
        future = holdfast.save(
            ctx.scratch / mode, tree, background=True, snapshot=mode
        )
        for x in tree.values():
            x.fill_(8)
        future.result()
        assert _values(ctx.scratch / mode) == {1}
        for x in tree.values():
            x.fill_(1)
    assert _values(ctx.scratch / "plain") == {1}
    del taken


@check(fills_device=True, seconds=120)
def load_without_room(ctx: Context) -> None:
    """A load that the device has no room for raises in words; afterwards the
    process still loads."""
    ctx.needs_gpu()
    tree = _tensors(ctx)
    holdfast.save(ctx.scratch / "c", tree)
    del tree
    taken = _fill(ctx.device, 8 << 20)
    error = trees.error_of(lambda: trees.load_on(ctx.scratch / "c", ctx.device))
    assert isinstance(
        error, (errors.ResourceExhaustedError, torch.OutOfMemoryError)
    ), repr(error)
    del taken
    torch.cuda.empty_cache()
    got = trees.load_on(ctx.scratch / "c", ctx.device)
    trees.same_tensors(got, _tensors(ctx), ctx.device)
