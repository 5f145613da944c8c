"""`python -m spherec` is the command `spherec`."""

from spherec.cli import main

main()
