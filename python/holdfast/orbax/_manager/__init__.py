"""The steps of a run, as seen by a checkpoint manager."""
