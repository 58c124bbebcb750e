"""Trees and their nodes: no files, no arrays' elements."""
