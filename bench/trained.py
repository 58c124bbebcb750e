#!/usr/bin/env python3
"""Trains three small models and saves their states, as test data for codecs.

usage: trained.py FOLDER [--only NAME,...] [--steps N]

Trained states differ from random numbers: they have rows that no batch touched,
frozen layers, and moments over many orders of magnitude. Each model takes a
minute or two on two quiet cores. The data exist on every machine or are drawn
from a seed:

  transformer  next token of Python's own library; bf16 weights, f32 masters,
               f32 moments; padding rows, head tied to the embedding, frozen
               positions
  convnet      classes of drawn gratings; bf16 weights and first moments, f32
               second ones, batch statistics; frozen stem
  ranker       clicks on Zipf-drawn items; bf16 weights and moments in large
               embeddings; integer tables

A state is saved, uncompressed, as the checkpoint FOLDER/NAME: top-level keys
are `weights`, `masters`, `mu`, `nu` and `rest`.
"""

import argparse
import collections
import os
import pathlib
import re
import sysconfig
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import holdfast
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn


def cast(tree, dtype):
    return jax.tree.map(lambda leaf: leaf.astype(dtype), tree)


def train(name, step_count, step, carry, batches):
    """Runs `step(carry, batch) -> (carry, loss)` `step_count` times."""
    start = time.perf_counter()
    for number in range(1, step_count + 1):
        carry, loss = step(carry, next(batches))
        if number % 20 == 0 or number == step_count:
            print(f"{name}: step {number}, loss {loss:.3f}, "
                  f"{time.perf_counter() - start:.0f} s", flush=True)
    return carry


# Transformer.

TOKENS_USED, TOKEN_ROWS = 8000, 8192  # rows rounded up, as accelerators prefer
WIDTH, CONTEXT, BATCH = 256, 64, 8


def library_tokens():
    """Returns (ids, counts); id 0 is padding, id 1 any rare token."""
    library = pathlib.Path(sysconfig.get_paths()["stdlib"])
    words = re.findall(r"\w+|[^\w\s]|\n", "\n".join(
        path.read_text(errors="replace")
        for path in sorted(library.glob("*.py"))))
    common = collections.Counter(words).most_common(TOKENS_USED - 2)
    number = {word: 2 + i for i, (word, _) in enumerate(common)}
    ids = np.array([number.get(word, 1) for word in words], np.int32)
    return ids, np.bincount(ids, minlength=TOKEN_ROWS).astype(np.int64)


def sinusoids():
    angle = np.arange(CONTEXT)[:, None] / 1e4 ** (np.arange(WIDTH // 2) /
                                                  (WIDTH // 2))
    return np.concatenate([np.sin(angle), np.cos(angle)], 1).astype(np.float32)


class Transformer(nn.Module):
    @nn.compact
    def __call__(self, tokens):
        used = (jnp.arange(TOKEN_ROWS) > 0) & (jnp.arange(TOKEN_ROWS) <
                                               TOKENS_USED)

        def rows(key, shape):
            return used[:, None] * 0.02 * jax.random.normal(key, shape)

        embedding = self.param("embedding", rows, (TOKEN_ROWS, WIDTH))
        embedding = embedding * used[:, None]  # padding rows learn nothing
        positions = self.param("positions", lambda key: jnp.array(sinusoids()))
        x = embedding[tokens] + 0.02 * jax.lax.stop_gradient(positions)
        mask = nn.make_causal_mask(tokens)
        for i in range(4):
            y = nn.LayerNorm(name=f"norm_{i}a")(x)
            x = x + nn.MultiHeadDotProductAttention(
                num_heads=4, name=f"attention_{i}")(y, mask=mask)
            y = nn.LayerNorm(name=f"norm_{i}b")(x)
            y = nn.gelu(nn.Dense(4 * WIDTH, name=f"up_{i}")(y))
            x = x + nn.Dense(WIDTH, name=f"down_{i}")(y)
        x = nn.LayerNorm(name="norm")(x)
        return jnp.where(used, x @ embedding.T, -1e9)


def transformer(step_count):
    ids, counts = library_tokens()
    draw = np.random.default_rng(1)
    key = jax.random.key(1)

    def batches():
        while True:
            starts = draw.integers(len(ids) - CONTEXT - 1, size=BATCH)
            yield np.stack([ids[at:at + CONTEXT + 1] for at in starts])

    model = Transformer()
    masters = model.init(key, np.zeros((1, CONTEXT), np.int32))["params"]
    optimizer = optax.adam(1e-3)

    @jax.jit
    def step(carry, batch):
        masters, state = carry

        def loss(masters):
            rounded = cast(cast(masters, jnp.bfloat16), jnp.float32)
            logits = model.apply({"params": rounded}, batch[:, :-1])
            return optax.softmax_cross_entropy_with_integer_labels(
                logits, batch[:, 1:]).mean()

        value, gradient = jax.value_and_grad(loss)(masters)
        updates, state = optimizer.update(gradient, state)
        return (optax.apply_updates(masters, updates), state), value

    masters, state = train("transformer", step_count, step,
                           (masters, optimizer.init(masters)), batches())
    weights = cast(masters, jnp.bfloat16)
    weights["head"] = weights["embedding"]  # tied
    return {"weights": weights, "masters": masters, "mu": state[0].mu,
            "nu": state[0].nu,
            "rest": {"count": state[0].count, "token_counts": counts,
                     "key": jax.random.key_data(key), "step": step_count}}


# Convnet.

CLASSES = 10
CHANNELS = (128, 256, 512, 512, 1024)


class Convnet(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = jax.lax.stop_gradient(
            nn.Conv(64, (5, 5), strides=2, name="stem")(x))
        for i, channels in enumerate(CHANNELS):
            x = nn.Conv(channels, (3, 3), strides=1 if i == 3 else 2,
                        use_bias=False, name=f"conv_{i}")(x)
            x = nn.relu(nn.BatchNorm(use_running_average=False,
                                     momentum=0.9, name=f"norm_{i}")(x))
        return nn.Dense(CLASSES, name="classes")(x.mean((1, 2)))


def gratings(draw, count=16):
    """Draws images of waves in noise; the class is the wave's direction."""
    labels = draw.integers(CLASSES, size=count)
    angle = (np.pi / CLASSES * labels + draw.normal(0, 0.05, count))
    y, x = np.mgrid[:32, :32].astype(np.float32)
    along = (np.cos(angle)[:, None, None] * x +
             np.sin(angle)[:, None, None] * y)
    waves = np.sin(along * draw.uniform(0.4, 1.2, (count, 1, 1)) +
                   draw.uniform(0, 6.3, (count, 1, 1)))
    images = (waves[..., None] * draw.uniform(0.2, 1, (count, 1, 1, 3)) +
              draw.normal(0, 0.5, (count, 32, 32, 3)))
    return images.astype(np.float32), labels


def convnet(step_count):
    draw = np.random.default_rng(2)

    def batches():
        while True:
            yield gratings(draw)

    model = Convnet()
    first = model.init(jax.random.key(2), gratings(draw)[0])
    optimizer = optax.adam(1e-3, mu_dtype=jnp.bfloat16)

    @jax.jit
    def step(carry, batch):
        masters, statistics, state = carry
        images, labels = batch

        def loss(masters):
            logits, changed = model.apply(
                {"params": masters, "batch_stats": statistics}, images,
                mutable=["batch_stats"])
            value = optax.softmax_cross_entropy_with_integer_labels(
                logits, labels).mean()
            return value, changed["batch_stats"]

        (value, statistics), gradient = jax.value_and_grad(
            loss, has_aux=True)(masters)
        updates, state = optimizer.update(gradient, state)
        return (optax.apply_updates(masters, updates), statistics,
                state), value

    masters, statistics, state = train(
        "convnet", step_count, step,
        (first["params"], first["batch_stats"],
         optimizer.init(first["params"])), batches())
    return {"weights": cast(masters, jnp.bfloat16), "mu": state[0].mu,
            "nu": state[0].nu,
            "rest": {"count": state[0].count, "statistics": statistics}}


# Ranker.

ROWS = {"user": 150_000, "item": 60_000, "pair": 100_000}


class Ranker(nn.Module):
    @nn.compact
    def __call__(self, features):
        found = []
        for name, row_count in ROWS.items():
            table = self.param(name, nn.initializers.normal(0.05),
                               (row_count, 32), jnp.bfloat16)
            found.append(table[features[name]])
        x = jnp.concatenate(found, 1)
        for width in (256, 64):
            x = nn.relu(nn.Dense(width, param_dtype=jnp.bfloat16)(x))
        return nn.Dense(1, param_dtype=jnp.bfloat16)(x)[:, 0]


def clicks(draw, tastes, bucket_of, count=4096):
    """Draws users and items by Zipf's law; a click is where tastes agree."""
    user = 1 + draw.zipf(1.2, count) % (ROWS["user"] - 1)
    item = 1 + draw.zipf(1.1, count) % (ROWS["item"] - 1)
    pair = bucket_of[(user * 31 + item) % len(bucket_of)]
    agreement = (tastes["user"][user] * tastes["item"][item]).sum(1)
    label = agreement + draw.logistic(size=count) > 0
    return {"user": user, "item": item, "pair": pair}, label


def ranker(step_count):
    draw = np.random.default_rng(3)
    tastes = {name: draw.normal(size=(ROWS[name], 4)) for name in
              ("user", "item")}
    bucket_of = draw.integers(1, ROWS["pair"], 200_003, np.int32)
    last_item = np.zeros(ROWS["user"], np.int32)
    item_counts = np.zeros(ROWS["item"], np.int64)

    def batches():
        while True:
            features, label = clicks(draw, tastes, bucket_of)
            last_item[features["user"]] = features["item"]
            np.add.at(item_counts, features["item"], 1)
            yield features, label.astype(np.float32)

    model = Ranker()
    weights = model.init(jax.random.key(3), next(batches())[0])["params"]
    for name in ROWS:
        weights[name] = weights[name].at[0].set(0)  # the row for "none"
    optimizer = optax.adam(1e-2)

    @jax.jit
    def step(carry, batch):
        weights, state = carry
        features, label = batch
        value, gradient = jax.value_and_grad(
            lambda weights: optax.sigmoid_binary_cross_entropy(
                model.apply({"params": weights}, features).astype(
                    jnp.float32), label).mean())(weights)
        updates, state = optimizer.update(gradient, state)
        return (optax.apply_updates(weights, updates), state), value

    weights, state = train("ranker", step_count, step,
                           (weights, optimizer.init(weights)), batches())
    return {"weights": weights, "mu": state[0].mu, "nu": state[0].nu,
            "rest": {"count": state[0].count, "bucket_of": bucket_of,
                     "last_item": last_item, "item_counts": item_counts,
                     "seen": item_counts > 0}}


MODELS = {"transformer": (transformer, 120), "convnet": (convnet, 80),
          "ranker": (ranker, 200)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", default=",".join(MODELS))
    parser.add_argument("--steps", type=int, help="steps to train each model")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in args.only.split(","):
        make, step_count = MODELS[name]
        state = make(args.steps or step_count)
        print(name, holdfast.save(args.folder / name, state, compression=None,
                                  overwrite=True))


if __name__ == "__main__":
    main()
