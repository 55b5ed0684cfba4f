"""Training gives the same bits with any number of threads."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from diffpool import build, embedded, train
from diffpool.architecture import PAPER
from diffpool.data import single_split
from diffpool.training import Training


def trained(threads: int) -> list[torch.Tensor]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        dataset = embedded(num_graphs=60)
        torch.manual_seed(0)
        model = build(
            replace(PAPER, poolings=2), dataset.num_features, dataset.num_classes, dataset.largest
        )
        for _ in train(model, dataset, single_split(dataset.y, seed=0), Training(epochs=1)):
            pass
        return [p.detach().clone() for p in model.parameters()]
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("threads", [2, 3])
def test_the_number_of_threads_does_not_change_a_bit(threads: int) -> None:
    assert all(map(torch.equal, trained(threads), trained(1)))
