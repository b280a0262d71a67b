"""The generator and the discriminator that the options name, and what they cannot be built for."""

from __future__ import annotations

from .discriminator import Discriminator, Verdict, Weights
from .generator import Generator
from .sizes import check_networks

__all__ = ["Discriminator", "Generator", "Verdict", "Weights", "check_networks"]
