"""What a person sees: the console and pictures."""
