"""One checkpoint, which is written whole or not at all."""
