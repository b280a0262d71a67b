"""Optimizers, learning rates and groups of variables: what applies the gradients of an update."""
