"""The exception whose message is written for users."""

from collections.abc import Mapping


class StatetraceError(ValueError):
    """Bad input or an impossible request, in one sentence that quotes the bad value and says what
    would work. The command line prints nothing else; library callers may catch a ValueError."""


class MissingError(StatetraceError, KeyError):
    """A name that a mapping does not have, so that `in` and `get` work as for dictionaries."""

    __str__ = Exception.__str__


def by_reason(failures: Mapping[str, str]) -> list[str]:
    """One sentence per reason, which begins with the names of what failed for it."""
    names: dict[str, list[str]] = {}
    for name, reason in failures.items():
        names.setdefault(reason, []).append(name)
    return [f"{', '.join(failed)}: {reason}" for reason, failed in names.items()]
