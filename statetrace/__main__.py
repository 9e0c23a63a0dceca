"""`python -m statetrace`, and what torchrun starts."""

import signal
import sys


def main() -> None:
    """Run the command line; Ctrl-C while it is imported, or when it has ended, is not an error."""
    try:
        from statetrace import cli

        cli.main()
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # libraries still clean up


if __name__ == "__main__":
    main()
