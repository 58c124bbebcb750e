"""A JAX training loop that survives being killed.

usage: train_jax.py FOLDER [--steps N] [--save-every N] [--die-at STEP]

A user of Orbax has to change only one line, the import of holdfast.orbax. Every
`--save-every` steps, the state is saved to FOLDER/<step>. A new run continues
from the newest checkpoint. `--die-at` kills the process in the middle of a
save, to show that the previous checkpoint is still intact.

Prints `step N loss X` for every step. A resumed run prints the same losses as a
run that was never killed.
"""

import argparse
import os
import pathlib
import signal
import threading

import jax
import jax.numpy as jnp

import holdfast.orbax as ocp  # was: import orbax.checkpoint as ocp


def init_state(key):
    first, second = jax.random.split(key)
    params = {
        "hidden": {"kernel": jax.random.normal(first, (8, 32)) * 0.3,
                   "bias": jnp.zeros(32)},
        "out": {"kernel": jax.random.normal(second, (32, 1)) * 0.3,
                "bias": jnp.zeros(1)},
    }
    momentum = jax.tree.map(jnp.zeros_like, params)
    return {"params": params, "momentum": momentum, "step": 0}


def predict(params, x):
    hidden = jnp.tanh(x @ params["hidden"]["kernel"]
                      + params["hidden"]["bias"])
    return hidden @ params["out"]["kernel"] + params["out"]["bias"]


@jax.jit
def update(params, momentum, x, y):
    def loss_of(params):
        return jnp.mean((predict(params, x) - y) ** 2)

    loss, gradient = jax.value_and_grad(loss_of)(params)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradient)
    params = jax.tree.map(lambda p, m: p - 0.02 * m, params, momentum)
    return params, momentum, loss


def batch_of(step):
    """Returns data that depends only on the step's number, so that a resumed
    run sees the same data."""
    x = jax.random.normal(jax.random.fold_in(jax.random.key(7), step), (64, 8))
    return x, jnp.sin(x.sum(axis=1, keepdims=True))


def newest_step(folder):
    steps = [int(each.name) for each in folder.glob("*")
             if each.name.isdigit()]
    return max(steps, default=None)


def restore_or_init(checkpointer, folder):
    state = init_state(jax.random.key(0))
    step = newest_step(folder)
    if step is None:
        return state
    print(f"resumed from step {step}", flush=True)
    return checkpointer.restore(folder / str(step), target=state)


def die_while_saving():
    """Dies as a preempted machine does, without any clean-up."""
    threading.Timer(0.0, os.kill, (os.getpid(), signal.SIGKILL)).start()


def train(folder, steps, save_every, die_at):
    with ocp.StandardCheckpointer() as checkpointer:
        state = restore_or_init(checkpointer, folder)
        for step in range(state["step"] + 1, steps + 1):
            params, momentum, loss = update(
                state["params"], state["momentum"], *batch_of(step))
            state = {"params": params, "momentum": momentum, "step": step}
            print(f"step {step} loss {float(loss):.9f}", flush=True)
            if step == die_at:
                checkpointer.save(folder / str(step), state)
                die_while_saving()
            elif step % save_every == 0:
                checkpointer.save(folder / str(step), state)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--save-every", type=int, default=5)
    parser.add_argument("--die-at", type=int)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    train(args.folder.resolve(), args.steps, args.save_every, args.die_at)


if __name__ == "__main__":
    main()
