"""Logs the cost of checkpoints to the experiment tracker that is installed.

usage: log_metrics.py FOLDER [--steps N]

`holdfast.metrics()` counts from the start of the process, so the script logs
the difference from the previous call. Without a tracker, it prints the metrics.
"""

import argparse
import importlib.util
import pathlib

import numpy as np

import holdfast


def has(module):
    return importlib.util.find_spec(module) is not None


def tracker(folder):
    """Returns a function log(step, numbers) of the first tracker found."""
    if has("wandb"):
        import wandb

        run = wandb.init(project="holdfast", dir=folder, mode="offline")
        return lambda step, numbers: run.log(numbers, step=step)
    if has("mlflow"):
        import mlflow

        mlflow.set_tracking_uri(pathlib.Path(folder, "mlruns").as_uri())
        return lambda step, numbers: mlflow.log_metrics(numbers, step=step)
    if has("tensorboard") and has("torch"):
        from torch.utils.tensorboard import SummaryWriter

        writer = SummaryWriter(folder)

        def to_tensorboard(step, numbers):
            for name, number in numbers.items():
                writer.add_scalar(name, number, step)

        return to_tensorboard
    return lambda step, numbers: print(f"step {step} " + " ".join(
        f"{name}={number:g}" for name, number in sorted(numbers.items())))


class MetricsHook:
    """Logs the metrics since the last call. Must be called after each save."""

    def __init__(self, log):
        self.log = log
        self.before = holdfast.metrics()

    def __call__(self, step):
        now = holdfast.metrics()
        self.log(step, {
            f"checkpoint/{name}": number - self.before.get(name, 0.0)
            for name, number in now.items()
            if number != self.before.get(name, 0.0)})
        self.before = now


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=3)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    hook = MetricsHook(tracker(arguments.folder))
    weights = np.ones((256, 256), np.float32)
    for step in range(1, arguments.steps + 1):
        weights *= 1.01
        holdfast.save(arguments.folder / str(step), {"w": weights})
        hook(step)


if __name__ == "__main__":
    main()
