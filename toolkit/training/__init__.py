"""One training run: what is built for it, its loop, its hooks, its records."""
