"""Checkpoints that peers hand on: names alone."""
