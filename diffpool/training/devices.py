"""The device with a given name."""

from __future__ import annotations

import torch

from diffpool.errors import SettingError


def select_device(name: str, option: str = "device") -> str:
    """The name of a device that exists; `auto` is CUDA if it is available, otherwise the CPU.

    `option` is the name of the user's option, for the error message.
    """
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.ones(1, device=device).cpu()
    except Exception as error:  # PyTorch raises exceptions of many types
        if str(name).split(":")[0] not in ("cpu", "cuda"):
            raise SettingError(
                f"expected {option} to be available on this machine, got {name!r}: use cpu, cuda or auto"
            ) from error
        reason = f"{error}."[:200].splitlines()[0].split(". ")[0].removesuffix(".")
        raise SettingError(
            f"expected {option} to be available on this machine, got {name!r} ({reason})"
        ) from error
    return str(device)
