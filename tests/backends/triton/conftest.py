"""Fixtures for the tests of the Triton kernels, on a GPU or in Triton's interpreter."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from diffpool.backends import use_backend

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


@pytest.fixture(autouse=True)
def _no_c_kernels() -> Iterator[None]:
    """Use no other backend than Triton."""
    with use_backend("triton"):
        yield


@pytest.fixture(autouse=True, scope="module")
def _kernels_were_launched(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail if the tests of a module launched no kernel: they would compare the reference with itself."""
    if not INTERPRETED or not request.node.get_closest_marker("triton"):
        yield
        return
    from triton.runtime.interpreter import GridExecutor

    launch, launches = GridExecutor.__call__, []

    def counted(executor: GridExecutor, *arguments: Any, **options: Any) -> Any:
        launches.append(executor)
        return launch(executor, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GridExecutor, "__call__", counted)
        yield
    assert launches, "no Triton kernel was launched"


@pytest.fixture
def _poisoned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill new memory with NaN, to detect reads of memory that was never written."""

    def poisoned(allocate: Any) -> Any:
        def allocated(*arguments: Any, **options: Any) -> torch.Tensor:
            t = allocate(*arguments, **options)
            return t.fill_(torch.nan) if t.is_floating_point() else t

        return allocated

    monkeypatch.setattr(torch, "empty_like", poisoned(torch.empty_like))
    monkeypatch.setattr(torch.Tensor, "new_empty", poisoned(torch.Tensor.new_empty))
