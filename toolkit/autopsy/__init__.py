"""After a divergence: repeat the refused step and find the first non-finite tensor.

The guard leaves the variables of the last good step unchanged, so the step can be repeated in a
graph and a session of its own, where each tensor can be fetched. The result is the earliest tensor
from which a chain of non-finite tensors leads to the refused loss or gradient norm. An infinity
that tf.where discards is in no such chain.
"""

from .examine import NOT_REPRODUCED, examine
from .finding import Finding, write

__all__ = ["NOT_REPRODUCED", "Finding", "examine", "write"]
