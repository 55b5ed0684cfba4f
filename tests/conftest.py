"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings
from samples import KINDS, Sample, sample

settings.register_profile(
    "repeatable", derandomize=True, database=None, deadline=None, max_examples=40
)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """The tensors are tiny: more threads only wait for each other."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _own_random_numbers() -> Iterator[None]:
    """Every test starts from the same seed and leaves the global generator as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@pytest.fixture(params=KINDS)
def ragged(request: pytest.FixtureRequest) -> Sample:
    """A ragged batch of each kind, with empty, single-node and edgeless graphs."""
    return sample(**KINDS[request.param])
