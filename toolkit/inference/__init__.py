"""What uses a checkpoint after training: evaluation, scores, reports, predictions, exports."""
