"""What is built before a session exists: the run, the graph of a step, its optimizer and loop."""
