"""The hooked session: one loop, and the hooks of the core in the order in which they run."""
