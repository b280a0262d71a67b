"""`python -m toolkit`: the same as the command `toolkit`."""

from .cli import main

main()
