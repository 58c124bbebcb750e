"""Checkpoints in several tiers: names alone."""
