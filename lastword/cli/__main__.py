"""`python -m lastword.cli` is `lastword`."""

from lastword.cli import main

main()
