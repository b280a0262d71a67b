"""What is read of finished and unfinished runs, and how several of them differ."""
