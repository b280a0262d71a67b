"""Scripts and graphs of TensorFlow 1 as runs of the toolkit, on both TensorFlows."""
