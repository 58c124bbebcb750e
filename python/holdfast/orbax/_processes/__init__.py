"""Work of several processes and threads, and where each waits for others."""
