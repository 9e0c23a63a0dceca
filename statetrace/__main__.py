"""`python -m statetrace`, and what torchrun starts."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C while it is still being imported is not an error."""
    try:
        from statetrace import cli

        cli.main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
