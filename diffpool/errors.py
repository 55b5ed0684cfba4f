"""The errors that a user can cause. The command line prints them as one line and exits with 2."""


class DiffPoolError(Exception):
    """Something the user can mend: the message says what was expected, what came, what to do."""


class DataError(DiffPoolError):
    """Input graphs or files are not what they should be."""


class SettingError(DiffPoolError):
    """An option has a value that does not fit."""


class ModelError(DiffPoolError):
    """A model directory is missing, damaged, or does not fit the data."""


class TrainingError(DiffPoolError):
    """Training cannot go on, for example because the loss became NaN.

    `model` is the number, from 0, of the model in its cohort that it is about; None if it is about none of them.
    """

    def __init__(self, message: str, model: int | None = None):
        super().__init__(message)
        self.model = model
