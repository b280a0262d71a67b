"""A run on disk: its folder, checkpoints, commit log and records."""
