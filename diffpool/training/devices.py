"""Devices by name."""

from __future__ import annotations

import torch

from diffpool.errors import SettingError


def select_device(name: str, option: str = "device") -> str:
    """The name of a device that exists; `auto` is CUDA if it is available, otherwise the CPU.

    `option` is what the user set, for the message.
    """
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise SettingError(
            f"expected {option} to be available on this machine, got {name!r} ({reason})"
        ) from error
    return str(device)
