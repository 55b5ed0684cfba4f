"""Files with a JSON object in each line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from diffpool.errors import DataError


def read_objects(file: Path, what: str) -> list[dict[str, Any]]:
    """The object of each line, at least one; `what` names it in errors. A missing file is a FileNotFoundError."""
    try:
        rows = [json.loads(line) for line in file.read_text("utf-8").splitlines() if line.strip()]
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{file}: expected {what} as JSON in each line ({error})") from error
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise DataError(f"{file}: expected {what} as JSON in each line: choose another file")
    return rows
