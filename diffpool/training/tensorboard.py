"""A callback that writes the metrics of every epoch for TensorBoard."""

from __future__ import annotations

import warnings
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from diffpool.errors import SettingError

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

    from diffpool.training.cohort import Epoch

FOLDER = "tensorboard"  # in the model directory, where `diffpool train --log tensorboard` writes
SUFFIX = ".diffpool"  # of the event files
TAGS = {  # TensorBoard draws tags with a common prefix next to each other
    "train_loss": "loss/train",
    "train_class_loss": "loss/train_class",
    "validation_loss": "loss/validation",
    "train_accuracy": "accuracy/train",
    "validation_accuracy": "accuracy/validation",
    "learning_rate": "learning_rate",
    "seconds": "epoch_seconds",
}


class TensorBoard:
    """Writes the numbers of every `Epoch` as scalars to `directory`, which is one run in TensorBoard.

        with TensorBoard("runs/tensorboard/first") as log:
            DiffPoolClassifier(callbacks=[log]).fit(graphs, y)

    Every epoch can be seen as soon as it is finished. The events of an earlier run in the same directory are
    replaced after the first epoch. If the disk is full, logging ends with a warning and training continues.
    """

    def __init__(self, directory: str | Path):
        _check_installed()
        self.directory = Path(directory)
        self._writer: SummaryWriter | None = None
        self._failed = False

    def __call__(self, row: Epoch) -> None:
        if self._failed:
            return
        try:
            self._write(row)
        except OSError as error:
            self._failed = True
            warnings.warn(
                f"cannot write to {self.directory} ({error.strerror}): training continues without this log",
                stacklevel=2,
            )

    def _write(self, row: Epoch) -> None:
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            remove_events(self.directory)
            self._writer = SummaryWriter(str(self.directory), filename_suffix=SUFFIX)
        for name, tag in TAGS.items():
            if (value := getattr(row, name)) is not None:  # accuracies, in regression
                self._writer.add_scalar(tag, value, row.epoch)
        self._writer.flush()

    def close(self) -> None:
        """Close the file. The next epoch, of another run, starts a new one."""
        if self._writer is not None:
            with suppress(OSError):  # a full disk
                self._writer.close()
        self._writer = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def remove_events(directory: str | Path) -> None:
    """Remove the event files that `TensorBoard` wrote to this directory, and the directory if it is then empty."""
    for path in Path(directory).glob(f"events.out.tfevents.*{SUFFIX}"):
        path.unlink(missing_ok=True)
    with suppress(OSError):
        Path(directory).rmdir()


def _check_installed() -> None:
    try:
        import tensorboard  # noqa: F401
    except ImportError as error:
        raise SettingError(
            "TensorBoard is required to write its logs. Install it with `pip install 'diffpool[tensorboard]'`."
        ) from error
