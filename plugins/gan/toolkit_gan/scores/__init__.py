"""How far from real the generated images are."""
