"""Examples: what they are, the sources that they come from, their splits and their readers."""
