"""What is done with a checkpoint: evaluate, score, report, predict, export."""
