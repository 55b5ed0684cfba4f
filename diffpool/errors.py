"""Errors that a user can fix. The command line prints them on one line and exits with status 2."""


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
