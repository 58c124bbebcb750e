"""Work of several processes and threads, and where they wait for each other."""
