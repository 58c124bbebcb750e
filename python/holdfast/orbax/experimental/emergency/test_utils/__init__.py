"""Helpers of tests of emergency checkpoints: names alone."""
