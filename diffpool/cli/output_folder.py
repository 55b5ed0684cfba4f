"""The folder that a command writes a model to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from diffpool.errors import SettingError


@contextmanager
def no_empty_folder(out: Path) -> Iterator[None]:
    """After an error, remove the folder and its parents as far as this command created them and they are empty."""
    created = [folder for folder in (out, *out.parents) if not folder.exists()]
    try:
        yield
    except BaseException:
        with suppress(OSError):
            for folder in created:
                folder.rmdir()
        raise


def check_out(out: Path, overwrite: bool) -> None:
    """Fail before the data is read if the model cannot be written there."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / ".write-test"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise SettingError(
            f"expected --out to be a writable folder, got {out} ({error.strerror})"
        ) from error
    from diffpool.experiments.single_run import CHECKPOINT
    from diffpool.training import reserve_directory

    if not overwrite and (out / CHECKPOINT).exists() and (out / "config.json").exists():
        raise SettingError(
            f"{out} already holds the model of an interrupted training run: continue it with --resume, replace it with "
            "--overwrite, or choose another directory"
        )
    with reserve_directory(out, overwrite):
        pass
