"""The generator and the critic that the options name, and what they cannot be built for."""

from __future__ import annotations

from .critic import Critic, Verdict, Weights
from .generator import Generator
from .sizes import check_networks

__all__ = ["Critic", "Generator", "Verdict", "Weights", "check_networks"]
