# The names that the snippets of doc/clients.md use.
import pathlib

pathlib.Path("train.py").write_text(
    "import sys, orbax.checkpoint\n"
    "assert orbax.checkpoint.__name__ == 'holdfast.orbax', sys.argv\n")
pathlib.Path("trainer.py").write_text(pathlib.Path("train.py").read_text())
