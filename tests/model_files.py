"""Model directories that were changed on purpose, with checksums that match the changes."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from diffpool.checksums import BLANK, sealed


def weights_file(directory: Path) -> Path:
    """The file with the parameters."""
    (file,) = directory.glob("model*.safetensors")
    return file


def read_config(directory: Path) -> dict[str, Any]:
    return json.loads((directory / "config.json").read_text())


def write_config(directory: Path, content: dict[str, Any]) -> None:
    """Write config.json with the checksum of this content."""
    text = json.dumps({**content, "checksum": BLANK})
    (directory / "config.json").write_bytes(sealed(text.encode()))


def write_weights(directory: Path, content: bytes) -> None:
    """Replace the file with the parameters, and its checksum in config.json."""
    weights_file(directory).unlink()
    digest = hashlib.sha256(content).hexdigest()
    (directory / f"model-{digest[:16]}.safetensors").write_bytes(content)
    write_config(directory, {**read_config(directory), "weights_sha256": digest})


def with_checksum(config: bytes) -> bytes:
    """The bytes of a config.json with the checksum corrected, if they contain one."""
    blank = re.sub(
        rb'("checksum": )"[0-9a-f]{64}"', rb'\1"' + BLANK.encode() + b'"', config, count=1
    )
    return sealed(blank) if blank != config else config
