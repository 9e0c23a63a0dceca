"""The one exception that is meant for a person to read."""


class StatetraceError(ValueError):
    """Bad input or an impossible request: one sentence that quotes the bad value and says what
    would be accepted. The command line prints it and nothing else; library callers may catch it
    as a ValueError."""
