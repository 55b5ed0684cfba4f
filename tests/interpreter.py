"""Triton's kernels without a GPU: its interpreter, which must be chosen before Triton is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")


# Its interpreter makes loop bounds of arrays with one element, which NumPy no longer takes for a number.
PATCH = """
import triton.runtime.interpreter as interpreter

given = interpreter._patch_lang_tensor


def patched(tensor, *scope):
    given(tensor, *scope)
    tensor.__index__ = lambda self: int(self.handle.data.item())


interpreter._patch_lang_tensor = patched
"""


def says_equal(code: str) -> None:
    """Run the code in a process of its own; it must print "equal" and nothing else."""
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    run = subprocess.run(
        [sys.executable, "-c", PATCH + code],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout == "equal\n", run.stderr
