"""After a divergence: make the refused step again and find the first tensor that is not finite.

The guard kept the variables of the last good step, so the step can be made again in a graph and a
session of its own, where each tensor can be looked at. What is told is the earliest tensor from
which a chain of non-finite tensors leads to the loss or the gradient norm that was refused: an
infinity that a tf.where discards is none.
"""

from .examine import UNREPEATED, examine
from .finding import Finding, write

__all__ = ["UNREPEATED", "Finding", "examine", "write"]
