"""Work of several processes and threads, and the barriers between them."""
