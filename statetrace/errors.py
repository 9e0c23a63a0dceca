"""The exception whose message is written for users."""


class StatetraceError(ValueError):
    """Bad input or an impossible request, in one sentence that quotes the bad value and says what
    would work. The command line prints nothing else; library callers may catch a ValueError."""


class MissingError(StatetraceError, KeyError):
    """A name that a mapping does not have, so that `in` and `get` work as for dictionaries."""

    __str__ = Exception.__str__
