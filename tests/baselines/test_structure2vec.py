"""Structure2Vec by hand."""

from __future__ import annotations

import torch
from samples import Sample

from diffpool.baselines.structure2vec import Structure2Vec


def path() -> Sample:
    adj = torch.tensor([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=torch.float64)
    return Sample([adj], [torch.tensor([[1.0], [2.0], [-3.0]], dtype=torch.float64)])


def test_the_mean_field_of_a_path_by_hand() -> None:
    """W₁ = 1, W₂ = 1/2: μ⁰ = relu(x), μ ← relu(x + (sum over the neighbors)/2)."""
    batch = path()
    encoder = Structure2Vec(1, 1, layers=2, last_order=()).double()
    torch.nn.init.ones_(encoder.own.weight)
    torch.nn.init.zeros_(encoder.own.bias)
    torch.nn.init.constant_(encoder.neighbors.weight, 0.5)
    # μ⁰ = 1, 2, 0; μ¹ = relu(1 + 1, 2 + 1/2, −3 + 1) = 2, 2.5, 0; μ² = relu(1 + 1.25, 2 + 1, −3 + 1.25)
    assert encoder(batch.sparse, batch.x).squeeze(1).tolist() == [2.25, 3.0, 0.0]


def test_all_layers_share_their_parameters() -> None:
    one, three = (Structure2Vec(4, 8, layers=n) for n in (1, 3))
    shapes = [{name: p.shape for name, p in m.named_parameters()} for m in (one, three)]
    assert shapes[0] == shapes[1]
