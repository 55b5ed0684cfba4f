"""Taking some models of a cohort as a new cohort."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from samples import sample
from torch import Tensor, nn

from diffpool.architecture import PAPER, RELEASED, flat
from diffpool.builder import build
from diffpool.nn import GraphClassifier, Linear, NodeIndexNorm, take

SMALL = replace(PAPER, hidden=5)
ARCHITECTURES = {
    "paper": SMALL,
    "flat": flat(SMALL),
    "gin": replace(SMALL, conv="gin", head=(4,)),
    "released": replace(RELEASED, hidden=5),
}
ROWS = [3, 1]


def cohort(name: str) -> GraphClassifier:
    torch.manual_seed(0)
    model = build(ARCHITECTURES[name], 3, 2, largest=21, models=4).double()
    with torch.no_grad():
        for value in model.state_dict().values():
            value.add_(0.1 * torch.rand_like(value))
    return model


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_taken_models_have_the_right_rows_and_the_same_outputs(name: str) -> None:
    model = cohort(name)
    taken = take(model, ROWS)
    for key, value in model.state_dict().items():
        assert torch.equal(taken.state_dict()[key], value[ROWS])
    batch = sample((13, 1, 21, 0, 8), density=0.3)
    graphs, nodes = batch.sparse.select(list(range(5)) * 4)
    all_four = model(graphs, batch.x[nodes]).logits.view(4, 5, 2)
    graphs, nodes = batch.sparse.select(list(range(5)) * 2)
    both = taken(graphs, batch.x[nodes]).logits.view(2, 5, 2)
    torch.testing.assert_close(both, all_four[ROWS], rtol=1e-10, atol=1e-10)


def test_taken_models_share_no_memory_with_the_cohort() -> None:
    model = cohort("paper")
    before = {key: value.clone() for key, value in model.state_dict().items()}
    taken = take(model, ROWS)
    for value in taken.state_dict().values():
        value.zero_()
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert len(model.encoders[0].convs[0].linear.weight) == 4


def test_every_module_that_stores_the_number_of_models_gets_the_new_one() -> None:
    for name in ARCHITECTURES:
        for module in take(cohort(name), ROWS).modules():
            if isinstance(module, Linear | NodeIndexNorm):
                assert module.models == 2


def test_one_model_taken_out_is_a_single_model() -> None:
    batch = sample((13, 1, 21, 0, 8), density=0.3)
    model = cohort("paper")
    single = build(SMALL, 3, 2, largest=21).double()
    single.load_state_dict({key: value[2:3] for key, value in model.state_dict().items()})
    taken = take(model, [2])
    assert torch.equal(taken(batch.sparse, batch.x).logits, single(batch.sparse, batch.x).logits)


def test_frozen_parameters_stay_frozen_and_shared_ones_stay_shared() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.models = nn.Parameter(torch.rand(4, 3)), ["not", "a", "number"]
            self.second = self.first
            self.frozen = nn.Parameter(torch.rand(4, 2), requires_grad=False)
            self.counts: Tensor
            self.register_buffer("counts", torch.arange(4))

    tied = take(Tied(), ROWS)
    assert tied.first is tied.second
    assert tied.first.requires_grad
    assert not tied.frozen.requires_grad
    assert tied.counts.tolist() == ROWS
    assert tied.models == ["not", "a", "number"]
