"""Read the rows of a Parquet file with PyArrow: molecules, or graphs with the keys of JSON lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from diffpool.data.archive import read_errors
from diffpool.errors import DataError

ROWS = 1000  # in memory at a time


def parquet_columns(path: Path) -> list[str]:
    """The names of the columns."""
    return list(_open(path).schema_arrow.names)


def parquet_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The number of each row, from 1, and the values of these columns."""
    number = 0
    file = _open(path)
    try:
        for batch in file.iter_batches(ROWS, columns=list(columns)):
            for row in batch.to_pylist():
                number += 1
                yield number, row
    except OSError as error:
        raise _damaged(path, error) from error
    except ValueError as error:  # PyArrow's own errors are ValueErrors
        raise _damaged(path, error) from error


def _open(path: Path) -> Any:
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise DataError(
            f"{path}: PyArrow is required to read Parquet files. Install it with `pip install 'diffpool[parquet]'`."
        ) from error
    with (
        read_errors(path),
        path.open("rb"),
    ):  # report a missing or unreadable file as such, not as damaged
        pass
    try:
        return ParquetFile(path)
    except (OSError, ValueError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> DataError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return DataError(
        f"{path}: expected a Parquet file, but the file cannot be parsed ({reason}). Is it complete?"
    )
