"""Errors that a user can fix. The command line prints them on one line and exits with status 2."""

import difflib
from collections.abc import Iterable


class DiffPoolError(Exception):
    """The base class. The message says what was expected, what was given, and what to do."""


class DataError(DiffPoolError):
    """Graphs or files are not as expected."""


class SettingError(DiffPoolError):
    """An option has an invalid value."""


class ModelError(DiffPoolError):
    """A model directory is missing or damaged, or does not match the data."""


class TrainingError(DiffPoolError):
    """Training cannot continue, for example because the loss is NaN.

    `model` is the index of the model in its cohort; None if the error is not about one model.
    """

    def __init__(self, message: str, model: int | None = None):
        super().__init__(message)
        self.model = model


def did_you_mean(
    name: str, known: Iterable[str], prefix: str = ". ", similarity: float = 0.6
) -> str:
    """The end of a message about an unknown name: `. Did you mean hidden?`, or empty if no known name is similar.

    Case, and the difference between - and _, do not matter.
    """
    found = {_folded(candidate): candidate for candidate in known}
    close = difflib.get_close_matches(_folded(name), found, n=3, cutoff=similarity)
    return f"{prefix}Did you mean {' or '.join(found[match] for match in close)}?" if close else ""


def _folded(name: str) -> str:
    return name.lower().replace("_", "-")
