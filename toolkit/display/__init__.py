"""Output for people: the console, and grids of images."""
