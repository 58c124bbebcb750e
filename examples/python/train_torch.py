"""A PyTorch training loop that saves in the background and resumes.

usage: train_torch.py FOLDER [--steps N] [--save-every N] [--stop-after STEP]

`background=True` makes the save return as soon as it has copied the tensors, so
that the next step may change them. Prints `step N loss X` for every step. A
resumed run prints the same losses as an uninterrupted run.
"""

import argparse
import pathlib

import torch

import holdfast


def make_model():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    return model, torch.optim.AdamW(model.parameters(), lr=1e-2)


def batch_of(step):
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(64, 8, generator=generator)
    return x, torch.sin(x.sum(dim=1, keepdim=True))


def newest(folder):
    steps = [int(each.name) for each in folder.glob("*")
             if each.name.isdigit()]
    return folder / str(max(steps)) if steps else None


def restore(path, model, optimizer):
    """Returns the step that was saved."""
    saved = holdfast.load(path, arrays="torch")
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return saved["step"]


def train(folder, steps, save_every, stop_after):
    model, optimizer = make_model()
    first, pending = 1, None
    if (path := newest(folder)) is not None:
        first = restore(path, model, optimizer) + 1
        print(f"resumed from step {first - 1}")
    for step in range(first, steps + 1):
        x, y = batch_of(step)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")
        if step % save_every == 0:
            if pending is not None:
                pending.result()
            state = {"model": model.state_dict(),
                     "optimizer": optimizer.state_dict(), "step": step}
            pending = holdfast.save(folder / str(step), state, background=True)
        if step == stop_after:
            break
    if pending is not None:
        stats = pending.result()
        print(f"last save: {stats.decoded_bytes} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--save-every", type=int, default=5)
    parser.add_argument("--stop-after", type=int)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    train(args.folder, args.steps, args.save_every, args.stop_after)


if __name__ == "__main__":
    main()
