"""How checkpoints of each back end are written and read."""
