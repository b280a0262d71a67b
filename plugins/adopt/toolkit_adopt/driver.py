"""What commands of the toolkit do with the runs of adopted scripts."""

from .commands import resume
from .inference import export, predict

COMMANDS = {"resume": resume, "predict": predict, "export": export}
