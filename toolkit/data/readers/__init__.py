"""Readers: from a split to the batches of a graph."""
