"""jax: its arrays, shardings, devices and listeners."""
