# The names that the snippets of README.md use.
import numpy as np

state = {"params": {"w": np.ones((4, 3), "float32")}, "step": 7}
params = state["params"]
abstract_state = state
