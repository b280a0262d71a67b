"""Where examples come from: sources, splits, and the two readers that feed a graph."""
