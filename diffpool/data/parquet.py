"""Read the rows of a Parquet file with PyArrow: molecules, or graphs with the keys of JSON lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from diffpool.data.archive import max_unpacked, read_errors
from diffpool.errors import DataError

ROWS = 1000  # in memory at a time
MAX_BYTES = 1 << 28  # per row, as in a line of JSON
VALUE_BYTES = 8  # of a number in memory
PREFIXES = "DELTA_BYTE_ARRAY"  # an encoding in which a few bytes can stand for a long string


def parquet_columns(path: Path) -> list[str]:
    """The names of the columns."""
    return list(_open(path).schema_arrow.names)


def parquet_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The number of each row, from 1, and the values of these columns.

    A file that unpacks to more bytes than a zip file may is an error.
    """
    number, total = 0, 0
    limit = max_unpacked(path)
    file = _open(path)
    _check_sizes(path, file.metadata, limit)
    texts = {c.path_in_schema for c in _chunks(file.metadata) if c.physical_type == "BYTE_ARRAY"}
    file = _open(path, sorted(texts))
    try:
        for batch in file.iter_batches(ROWS, columns=list(columns)):
            size = _size(batch)
            total += size
            if total > limit:
                raise _too_large(path, limit, total)
            parts = [batch] if size <= MAX_BYTES else [batch[i : i + 1] for i in range(len(batch))]
            for part in parts:
                if len(part) == 1 and _size(part) > MAX_BYTES:
                    raise DataError(
                        f"{path}, row {number + 1}: expected at most {MAX_BYTES:,} bytes, got {_size(part):,}. "
                        "Write one graph per row."
                    )
                for row in part.to_pylist():
                    number += 1
                    yield number, row
    except (OSError, ValueError, NotImplementedError) as error:  # PyArrow's own errors
        raise _damaged(path, error) from error


def _check_sizes(path: Path, about: Any, limit: int) -> None:
    """Raise a DataError if the file says that it unpacks to more bytes, or to more values, than are allowed."""
    unpacked = sum(chunk.total_uncompressed_size for chunk in _chunks(about))
    values = sum(chunk.num_values for chunk in _chunks(about))  # a run of one value needs no space
    if max(unpacked, values * VALUE_BYTES) > limit:
        raise _too_large(path, limit, max(unpacked, values * VALUE_BYTES))
    for chunk in _chunks(about):
        if PREFIXES in chunk.encodings:
            raise DataError(
                f"{path}: the column {chunk.path_in_schema} has the encoding {PREFIXES}, which can hide long strings. "
                "Write the file with the default encoding."
            )


def _chunks(about: Any) -> Iterator[Any]:
    """What the file says about every column of every group of rows."""
    for group in range(about.num_row_groups):
        row_group = about.row_group(group)
        for column in range(row_group.num_columns):
            yield row_group.column(column)


def _size(batch: Any) -> int:
    """The bytes of the values of some rows; a string counts as often as it occurs."""
    return sum(map(_array_size, batch.columns))


def _array_size(array: Any) -> int:
    from pyarrow import compute, types

    kind = array.type
    if types.is_dictionary(kind) and not types.is_primitive(kind.value_type):
        lengths = compute.binary_length(array.dictionary)
        return compute.sum(lengths.take(array.indices), min_count=0).as_py()
    if types.is_map(kind):
        return _array_size(array.keys) + _array_size(array.items)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return VALUE_BYTES * len(array) + _array_size(array.flatten())
    if types.is_struct(kind):
        return sum(map(_array_size, array.flatten()))
    return array.nbytes


def _open(path: Path, texts: Sequence[str] = ()) -> Any:
    """The file. In these columns, equal strings are stored once in memory."""
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
        return ParquetFile(path, read_dictionary=list(texts))
    except (OSError, ValueError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> DataError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return DataError(
        f"{path}: expected a Parquet file, but the file cannot be parsed ({reason}). Is it complete?"
    )


def _too_large(path: Path, limit: int, got: int) -> DataError:
    return DataError(
        f"{path}: expected at most {limit:,} unpacked bytes, got {got:,}. The file is damaged or malicious; if you "
        "trust it, convert it to JSON lines or CSV."
    )
