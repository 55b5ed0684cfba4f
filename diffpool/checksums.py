"""Files (safetensors and JSON) that contain their own SHA-256, so that damage is always detected.

The checksum is the text `"checksum": "<64 hexadecimal digits>"` in the file. It is the SHA-256 of the whole file with
zeros in place of the digits. It detects damage; it does not protect against forgery.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from diffpool.files import atomic_write

BLANK = "0" * 64  # placeholder for the checksum that `sealed` computes
CHECKSUM = re.compile(rb'"checksum\\?": \\?"([0-9a-f]{64})')  # quotes in metadata are \"

Arrays = dict[str, np.ndarray]


class DamagedFileError(Exception):
    """A file has changed since it was written, or cannot be read."""


def sealed(content: bytes) -> bytes:
    """The content with its checksum filled in; `content` must contain `"checksum": BLANK`."""
    match = CHECKSUM.search(content)
    assert match is not None
    return content[: match.start(1)] + _checksum(content, match) + content[match.end(1) :]


def is_intact(content: bytes) -> bool:
    """Whether the content is unchanged since `sealed` returned it."""
    match = CHECKSUM.search(content)
    return match is not None and match[1] == _checksum(content, match)


def _checksum(content: bytes, match: re.Match[bytes]) -> bytes:
    digest = hashlib.sha256(content[: match.start(1)])
    digest.update(BLANK.encode())
    digest.update(memoryview(content)[match.end(1) :])
    return digest.hexdigest().encode()


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray], about: Any = None) -> None:
    """Write arrays, and `about` as JSON, to a safetensors file with a checksum. Creates the folder if needed.

    Readers see either the old or the new file.
    """
    # safetensors writes the memory of an array in order and ignores its strides
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    # one metadata entry, because safetensors writes several in arbitrary order
    content = save(contiguous, {"about": json.dumps({"checksum": BLANK, "about": about})})
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary:
        temporary.write_bytes(sealed(content))


def load_arrays(path: Path) -> tuple[Arrays, Any] | None:
    """The arrays and `about` from a file written by `save_arrays`; None if the file does not exist.

    Raises `DamagedFileError` if the file has changed since it was written, or cannot be read.
    """
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise DamagedFileError(f"{path} cannot be read ({error.strerror})") from error
    if not is_intact(content):
        raise DamagedFileError(f"{path} is damaged (its checksum does not match)")
    try:
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        return load(content), json.loads(header["__metadata__"]["about"])["about"]
    except (
        SafetensorError,
        ValueError,
        KeyError,
        TypeError,
    ) as error:  # not written by this package
        raise DamagedFileError(f"{path} is damaged ({type(error).__name__}: {error})") from error
