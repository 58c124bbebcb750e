#!/usr/bin/env python3
"""Measures the size of deltas of weights, and how fast they are coded.

usage: bench/deltas.py BENCH [--mib N] [--rounds N] [--out NAME]

BENCH is the built bench/deltas. Weights are bf16 roundings of f32 masters:

  drawn    normal weights of N MiB and updates like Adam's, at rates at which
           0.3, 1, 4.5 and 10 % of the weights change
  trained  the matrices of a torch transformer before and after one step of
           fine-tuning by Adam, with rates of 1e-6 to 1e-5. The model predicts
           the next byte of Python's library; it is trained first

Compares holdfast with three other codings of pieces of 8 MiB: index + value (4
+ 2 bytes per change), gaps and values in zstd 3, and XOR in zstd 3. Needs
numpy, torch, ml_dtypes and zstandard. --out writes NAME.md and NAME.json to
bench/results/.
"""

import argparse
import json
import pathlib
import subprocess
import sysconfig
import tempfile

import ml_dtypes
import numpy as np
import torch
import zstandard

PIECE_WORDS = 4 << 20
DRAWN_RATES = (1.2e-7, 5e-7, 3e-6, 8.1e-6)
TRAINED_RATES = (1e-6, 3e-6, 1e-5)
BF16_KIND = ("2", "7")


def bits(values):
    return np.asarray(values, np.float32).astype(ml_dtypes.bfloat16).view(
        np.uint16)


def drawn(rate, byte_count):
    random = np.random.default_rng(1)
    count = byte_count // 2
    weights = (random.standard_normal(count) * 0.02).astype(np.float32)
    update = np.clip(random.standard_normal(count) * 0.5, -1, 1) * rate
    return bits(weights), bits(weights - update)


class Model(torch.nn.Module):
    """A transformer of four blocks over bytes."""

    def __init__(self, width=384, blocks=4):
        super().__init__()
        self.embedding = torch.nn.Embedding(256, width)
        self.places = torch.nn.Embedding(128, width)
        self.blocks = torch.nn.TransformerEncoder(
            torch.nn.TransformerEncoderLayer(
                width, 6, 4 * width, dropout=0, batch_first=True,
                norm_first=True),
            blocks, enable_nested_tensor=False)
        self.head = torch.nn.Linear(width, 256)

    def forward(self, text):
        count = text.shape[1]
        mask = torch.nn.Transformer.generate_square_subsequent_mask(count)
        hidden = self.embedding(text) + self.places(torch.arange(count))
        return self.head(self.blocks(hidden, mask=mask, is_causal=True))


def batches(seed):
    folder = pathlib.Path(sysconfig.get_path("stdlib"))
    text = b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))
    data = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    generator = torch.Generator().manual_seed(seed)
    while True:
        starts = torch.randint(len(data) - 129, (8,), generator=generator)
        yield torch.stack([data[start:start + 129] for start in starts])


def train(model, optimizer, source, steps):
    for _ in range(steps):
        batch = next(source)
        loss = torch.nn.functional.cross_entropy(
            model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def weights_of(model):
    return bits(torch.cat([p.detach().flatten() for p in model.parameters()
                           if p.ndim > 1]).numpy())


def trained():
    torch.manual_seed(0)
    model = Model()
    source = batches(1)
    train(model, torch.optim.AdamW(model.parameters(), 3e-4), source, 150)
    start = {k: v.clone() for k, v in model.state_dict().items()}
    for rate in TRAINED_RATES:
        model.load_state_dict(start)
        optimizer = torch.optim.AdamW(model.parameters(), rate)
        train(model, optimizer, source, 10)
        before = weights_of(model)
        train(model, optimizer, source, 1)
        yield rate, before, weights_of(model)


def peers(before, after):
    """Returns the bytes that other codings take."""
    compressor = zstandard.ZstdCompressor(level=3)
    changed = np.flatnonzero(before != after)
    xor = gaps = 0
    for first in range(0, len(before), PIECE_WORDS):
        piece = slice(first, first + PIECE_WORDS)
        xor += len(compressor.compress(
            (before[piece] ^ after[piece]).tobytes()))
        places = np.flatnonzero(before[piece] != after[piece])
        gaps += len(compressor.compress(
            np.diff(places, prepend=0).astype(np.uint32).tobytes() +
            after[piece][places].tobytes()))
    return {"index + value": 6 * len(changed), "gaps + zstd": gaps,
            "XOR + zstd": xor}


def measure(bench, name, before, after, rounds):
    with tempfile.TemporaryDirectory() as folder:
        paths = [pathlib.Path(folder) / part for part in ("base", "next")]
        for path, words in zip(paths, (before, after), strict=True):
            path.write_bytes(words.tobytes())
        ours = json.loads(subprocess.run(
            [bench, *map(str, paths), *BF16_KIND, str(rounds)], check=True,
            capture_output=True, text=True).stdout)
    return {"name": name, "density": float(np.mean(before != after)),
            "raw": before.nbytes, "holdfast": ours["coded_bytes"],
            "encode": ours["encode"], "decode": ours["decode"],
            **peers(before, after)}


def table(rows):
    lines = [
        "| weights | changed | holdfast | index + value | gaps + zstd |"
        " XOR + zstd | smaller than index + value | than XOR + zstd |"
        " encode | decode |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for row in rows:
        cells = [f"{row['raw'] / row[key]:.1f}×" for key in
                 ("holdfast", "index + value", "gaps + zstd", "XOR + zstd")]
        cells += [f"{row[key] / row['holdfast']:.2f}×" for key in
                  ("index + value", "XOR + zstd")]
        lines.append(f"| {row['name']} | {row['density']:.2%} | "
                     f"{' | '.join(cells)} | {row['encode']:.2f} GB/s | "
                     f"{row['decode']:.2f} GB/s |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bench")
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out")
    args = parser.parse_args()
    rows = []
    for rate in DRAWN_RATES:
        before, after = drawn(rate, args.mib << 20)
        rows.append(measure(args.bench, f"drawn, rate {rate:g}", before, after,
                            args.rounds))
    for rate, before, after in trained():
        rows.append(measure(args.bench, f"trained, rate {rate:g}", before,
                            after, args.rounds))
    print(table(rows))
    if args.out:
        out = pathlib.Path(__file__).parent / "results" / args.out
        out.with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n")
        out.with_suffix(".md").write_text(
            "# Deltas: sizes and speeds\n\n"
            f"`bench/deltas.py build/dev/bench/deltas --mib {args.mib} --rounds"
            f" {args.rounds} --out {args.out}`; medians of {args.rounds}"
            " rounds, one thread, in memory. Sizes are raw bytes over stored"
            " bytes.\n\n" + table(rows) + "\n")


if __name__ == "__main__":
    main()
