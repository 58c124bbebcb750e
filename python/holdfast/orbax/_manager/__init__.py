"""The steps of a run, as a manager of checkpoints sees them."""
