# What the snippets of README.md speak of.
import numpy as np

state = {"params": {"w": np.ones((4, 3), "float32")}, "step": 7}
params = state["params"]
abstract_state = state
