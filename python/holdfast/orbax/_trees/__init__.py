"""Trees and their nodes, without files or array elements."""
