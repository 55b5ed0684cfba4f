"""Fixtures, options and markers shared by all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec

import pytest
import torch
from hypothesis import settings
from samples import KINDS, Sample, sample

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
CUDA = torch.cuda.is_available() and not INTERPRETED


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--soak",
        action="store_true",
        help="Run the repeated tests (fuzzing, kills, properties) with their full counts.",
    )


def pytest_configure(config: pytest.Config) -> None:
    options = {"derandomize": True, "database": None, "deadline": None}
    settings.register_profile("default", max_examples=40, **options)
    settings.register_profile("soak", max_examples=400, **options)
    settings.load_profile("soak" if config.getoption("--soak") else "default")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reasons = {}
    if not CUDA:
        reasons["gpu"] = "needs a CUDA device"
    if find_spec("triton") is None:
        reasons["triton"] = "Triton is not installed"
    elif not CUDA and not INTERPRETED:
        reasons["triton"] = "needs a CUDA device or TRITON_INTERPRET=1 (see `make test`)"
    for item in items:
        for marker, reason in reasons.items():
            if item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def soak(request: pytest.FixtureRequest) -> bool:
    """Whether repeated tests run with their full counts."""
    return request.config.getoption("--soak")


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """Use one thread: the tensors are tiny, and more threads only wait for each other."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _own_random_numbers() -> Iterator[None]:
    """Start every test from the same seed and restore the global generator afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@pytest.fixture(params=KINDS)
def ragged(request: pytest.FixtureRequest) -> Sample:
    """A ragged batch of each kind, with empty, single-node and edgeless graphs."""
    return sample(**KINDS[request.param])
