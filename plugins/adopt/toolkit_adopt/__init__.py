"""Train untouched TensorFlow 1 scripts, and resume them exactly: `toolkit adopt SCRIPT`."""
