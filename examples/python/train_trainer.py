"""A small trainer in the style of Lightning and Accelerate that can resume.

usage: train_trainer.py FOLDER [--epochs N] [--die-at STEP]

Each checkpoint has everything that the run depends on: the model, the
optimizer, the schedule, the order of the data, the state of the random number
generator and the counters. `holdfast.torch.restore` restores all of it, so a
killed run continues as if it had not been killed: each `step N loss X` is the
same to the last digit.
"""

import argparse
import os
import pathlib
import signal

import torch

import holdfast.torch


class Shuffled:
    """Yields batches in a new order every epoch. Can resume in mid-epoch."""

    def __init__(self, size, batch):
        self.size, self.batch = size, batch
        self.epoch = self.position = 0

    def state_dict(self):
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state):
        self.epoch, self.position = state["epoch"], state["position"]

    def __iter__(self):
        order = torch.randperm(
            self.size, generator=torch.Generator().manual_seed(self.epoch))
        while self.position + self.batch <= self.size:
            start, self.position = self.position, self.position + self.batch
            yield order[start:self.position]
        self.epoch, self.position = self.epoch + 1, 0


class Trainer:
    def __init__(self, folder, save_every=7, die_at=None):
        self.folder, self.save_every, self.die_at = folder, save_every, die_at
        self.step, self.pending = 0, None

    def parts(self):
        """Returns the parts of a checkpoint, except for the counters."""
        return {"model": self.model, "optimizer": self.optimizer,
                "scheduler": self.schedule, "batches": self.batches}

    def save(self):
        if self.pending is not None:
            self.pending.result()
        self.pending = holdfast.torch.save(
            self.folder / str(self.step), **self.parts(), step=self.step,
            rng=torch.get_rng_state(), background=True)

    def resume(self):
        saved = [int(each.name) for each in self.folder.glob("*")
                 if each.name.isdigit()]
        if not saved:
            return
        rest = holdfast.torch.restore(
            self.folder / str(max(saved)), **self.parts())
        self.step = rest["step"]
        torch.set_rng_state(rest["rng"])
        print(f"resumed from step {self.step}")

    def fit(self, model, data, epochs):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizer, max_lr=2e-2, total_steps=200)
        self.batches = Shuffled(len(data[0]), 32)
        self.resume()
        while self.batches.epoch < epochs:
            for batch in self.batches:
                self.train(*(each[batch] for each in data))
        if self.pending is not None:
            self.pending.result()

    def train(self, x, y):
        self.optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        self.schedule.step()
        self.step += 1
        print(f"step {self.step} loss {loss.item():.9f}", flush=True)
        if self.step % self.save_every == 0:
            self.save()
        if self.step == self.die_at:
            os.kill(os.getpid(), signal.SIGKILL)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--die-at", type=int)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    x = torch.randn(320, 8)
    data = x, torch.sin(x.sum(dim=1, keepdim=True))
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Dropout(0.1),
        torch.nn.Linear(32, 1))
    Trainer(args.folder, die_at=args.die_at).fit(model, data, args.epochs)


if __name__ == "__main__":
    main()
