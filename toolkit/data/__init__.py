"""Data sources, their splits, and the two readers that feed a graph."""
