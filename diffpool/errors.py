"""Errors that a user can fix. The command line prints them on one line and exits with status 2."""

import difflib
import reprlib
from collections.abc import Iterable
from typing import Any


class DiffPoolError(Exception):
    """The base class. The message says what was expected, what was given, and what to do."""


class DataError(DiffPoolError):
    """Graphs or files are not as expected."""


def only_on_device(name: str) -> DataError:
    """The error of formats that need the sizes of the graphs on the host."""
    return DataError(
        f"expected no use of {name} in a captured step, where only the GPU knows the sizes of the graphs: use graphs "
        "with the layers of diffpool.nn, or x_dense, adj and mask of a pooling"
    )


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


MAX_SHOWN = 100  # characters of a value in a message
_REPR = reprlib.Repr()  # abbreviates long lists
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = (
    4 * MAX_SHOWN
)  # the middle of longer ones is left out
_REPR.maxlist = _REPR.maxtuple = _REPR.maxdict = 20


def shortened(value: Any) -> str:
    """The `repr` of a value on one line, shortened to at most MAX_SHOWN characters."""
    try:
        return cut(_REPR.repr(value))
    except ValueError:  # Python refuses to print thousands of digits
        return f"an integer of {value.bit_length()} bits" if isinstance(value, int) else "a value"


def cut(text: str, length: int = MAX_SHOWN) -> str:
    """The text on one line, shortened to at most `length` characters."""
    line = " ".join(part.strip() for part in text[: 4 * length].splitlines())
    return line if len(line) <= length else f"{line[: length - 1]}…"


def did_you_mean(
    name: str, known: Iterable[str], prefix: str = ". ", similarity: float = 0.6
) -> str:
    """The end of a message about an unknown name: `. Did you mean hidden?`, or "" if no known name is similar.

    Ignores case and the difference between - and _.
    """
    found = {_folded(candidate): candidate for candidate in known}
    close = difflib.get_close_matches(_folded(name), found, n=3, cutoff=similarity)
    return f"{prefix}Did you mean {' or '.join(found[match] for match in close)}?" if close else ""


def _folded(name: str) -> str:
    return name.lower().replace("_", "-")
