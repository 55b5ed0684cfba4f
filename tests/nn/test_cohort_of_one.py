"""M models side by side: each computes the same as on its own. A single model is a cohort of one."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from samples import randn, sample
from torch import Tensor

from diffpool.architecture import PAPER, RELEASED, flat
from diffpool.builder import build
from diffpool.nn import GraphClassifier, Prediction

MODELS, CLASSES = 3, 2
SMALL = replace(PAPER, hidden=5)
ARCHITECTURES = {
    "paper": SMALL,
    "two poolings": replace(SMALL, poolings=2),
    "clusters of the data set": replace(SMALL, clusters="dataset"),
    "flat": flat(SMALL),
    "gcn": replace(SMALL, conv="gcn", concat=True, every_level=True, readout="mean"),
    "gin": replace(SMALL, conv="gin"),
    "linear assignment": replace(SMALL, assignment_linear=True, head=(4,), ratio=0.25),
    "released": replace(RELEASED, hidden=5),
}
BATCHES = {
    "ragged": (13, 1, 21, 0, 8, 5),
    "single node": (1,),
    "two nodes": (2,),
    "equal sizes": (7, 7, 7),
}


def exact(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def members_and_cohort(name: str, training: bool) -> tuple[list[GraphClassifier], GraphClassifier]:
    """Three models with different parameters and statistics, and the cohort of all three."""

    def make(models: int) -> GraphClassifier:
        built = build(ARCHITECTURES[name], 3, CLASSES, largest=21, models=models)
        return built.double().train(training)

    members = [make(1) for _ in range(MODELS)]
    for number, member in enumerate(members):
        for i, (key, value) in enumerate(member.state_dict().items()):
            if "steps" in key or key.endswith("epsilon"):
                noise = 0.2 * randn(*value.shape, seed=100 * number + i)
                value.mul_(noise.exp()).add_(0 if key.endswith("var") else noise)
    cohort = make(MODELS)
    states = [member.state_dict() for member in members]
    cohort.load_state_dict({key: torch.cat([s[key] for s in states]) for key in states[0]})
    return members, cohort


def loss_of(prediction: Prediction, copies: int) -> Tensor:
    """The same function, applied to the graphs of each copy."""
    parts = [prediction.logits, *prediction.losses.values()]
    return sum(
        (
            part.unflatten(0, (copies, -1)) * randn(len(part) // copies, *part.shape[1:], seed=i)
        ).sum()
        for i, part in enumerate(parts)
    )


@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
@pytest.mark.parametrize("sizes", BATCHES)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_each_model_of_a_cohort_computes_the_same_as_alone(
    name: str, sizes: str, training: bool
) -> None:
    batch = sample(BATCHES[sizes], edgeless=(5,), density=0.3)
    members, cohort = members_and_cohort(name, training)
    graphs, nodes = batch.sparse.select(list(range(len(batch.sizes))) * MODELS)
    together = cohort(graphs, batch.x[nodes])
    loss_of(together, MODELS).backward()
    cohort_parameters, cohort_buffers = (
        dict(cohort.named_parameters()),
        dict(cohort.named_buffers()),
    )
    for number, member in enumerate(members):
        alone = member(batch.sparse, batch.x)
        exact(together.logits.unflatten(0, (MODELS, -1))[number], alone.logits)
        for key, loss in alone.losses.items():
            exact(together.losses[key].unflatten(0, (MODELS, -1))[number], loss)
        loss_of(alone, 1).backward()
        for key, parameter in member.named_parameters():
            exact(cohort_parameters[key].grad[number], parameter.grad[0])
        for key, buffer in member.named_buffers():
            exact(cohort_buffers[key][number], buffer[0])
