"""`python -m statetrace`, and what torchrun starts."""

from statetrace.cli import main

main()
