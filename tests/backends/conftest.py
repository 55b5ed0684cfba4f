"""Fixtures for the tests of the backends."""

from __future__ import annotations

import os

import pytest


@pytest.fixture
def device() -> str:
    """The device of the Triton kernels: the CPU in the interpreter, otherwise the GPU."""
    return "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda"
