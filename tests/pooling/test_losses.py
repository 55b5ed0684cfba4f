"""With losses="pyg", the layer computes what PyTorch Geometric's `dense_diff_pool` computes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pooling.layers import SIZES, call, close, inputs
from samples import KINDS, padded, randn, sample
from torch import Tensor

from diffpool import DiffPooling, PoolingOutput


def dense_pool(x: Tensor, adj: Tensor, s: Tensor, mask: Tensor | None, **more: Any) -> Any:
    return pytest.importorskip("torch_geometric.nn").dense_diff_pool(x, adj, s, mask, **more)


def assert_like_dense_pool(out: PoolingOutput, theirs: Any) -> None:
    for ours, other in zip(
        (out.x_dense, out.adj, out.losses["link"], out.losses["entropy"]), theirs, strict=True
    ):
        torch.testing.assert_close(ours, other.to(ours.dtype), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_the_outputs_and_losses_are_those_of_dense_diff_pool(kind: str, normalize: bool) -> None:
    ragged = sample(SIZES, **KINDS[kind]).to(torch.float32)
    logits = randn(sum(SIZES), 3, seed=4).float()
    adj, x, mask = (t.float() if t.is_floating_point() else t for t in padded(ragged, max(SIZES)))
    s = torch.zeros(*mask.shape, 3)
    s[mask] = logits
    pool = DiffPooling(losses="pyg", normalize=normalize)
    theirs = dense_pool(x, adj, s, mask, normalize=normalize)
    assert_like_dense_pool(call(pool, ragged, s=logits), theirs)
    assert_like_dense_pool(pool(x, adj, mask=mask, s=s), theirs)
    out = call(pool, ragged, s=logits)
    close(out.loss, out.losses["link"] + out.losses["entropy"])


def test_padding_beyond_the_largest_graph_counts_as_in_dense_diff_pool() -> None:
    ragged = sample(SIZES)
    adj, x, mask = padded(ragged, 12)
    s = randn(len(SIZES), 12, 3, seed=6)
    out = DiffPooling(losses="pyg")(x, adj, mask=mask, s=s)
    assert_like_dense_pool(out, dense_pool(x, adj, s, mask))


def test_two_levels_are_those_of_dense_diff_pool() -> None:
    ragged = sample(SIZES)
    adj, x, mask = padded(ragged, max(SIZES))
    first, second = randn(len(SIZES), max(SIZES), 4, seed=7), randn(len(SIZES), 4, 2, seed=8)
    pool = DiffPooling(losses="pyg")
    out = pool(x, adj, mask=mask, s=first)
    last = pool(out.x, out.graphs, s=second.flatten(0, 1))
    x, adj, *_ = dense_pool(x, adj, first, mask)
    assert_like_dense_pool(last, dense_pool(x, adj, second, None))


def test_the_gradients_are_those_of_dense_diff_pool() -> None:
    ragged = sample(SIZES)
    adj, x, mask = padded(ragged, max(SIZES))
    s = randn(len(SIZES), max(SIZES), 3, seed=9)
    found = []
    for ours in (True, False):
        leaves = [t.clone().requires_grad_() for t in (x, adj, s)]
        h, a, logits = leaves
        if ours:
            out = DiffPooling(losses="pyg")(h, a, mask=mask, s=logits)
            results = out.x_dense, out.adj, out.losses["link"], out.losses["entropy"]
        else:
            results = dense_pool(h, a, logits, mask)
        sum(((r + 1) ** 2).sum() for r in results).backward()
        found.append([t.grad for t in leaves])
    inside = mask[:, :, None] & mask[:, None]
    for ours, theirs in zip(*found, strict=True):
        if ours.shape == inside.shape:  # adj: there are no entries outside the mask
            ours, theirs = ours[inside], theirs[inside]
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_the_outputs_and_losses_are_those_of_torch_geometric_pool(kind: str, batched: bool) -> None:
    """Without its removal of self-loops and normalization. Its entropy is the mean over all nodes of the batch."""
    pytest.importorskip("torch_geometric")
    pytest.importorskip("tgp")
    from benchmarks.tgp_pool import poolers

    sizes = (5, 1, 7, 4, 2, 6)
    ragged = sample(sizes, **KINDS[kind])
    plain = {"remove_self_loops": False, "degree_norm": False}
    theirs = poolers().get_pooler("diff", in_channels=3, k=4, batched=batched, **plain).double()
    torch.manual_seed(0)
    weight, bias = theirs.parameters()
    assign = torch.nn.Linear(3, 4, dtype=torch.float64)
    weight.copy_(assign.weight)
    bias.copy_(assign.bias)
    x, edge_index, batch, edge_weight = inputs(ragged)
    given = torch.ones(edge_index.shape[1]).double() if edge_weight is None else edge_weight
    expected = theirs(x=x, adj=edge_index, edge_weight=given, batch=batch)
    out = call(DiffPooling(assign=assign, losses="pyg", normalize=False), ragged)
    rows = len(sizes) * max(sizes)  # PyG's entropy is the mean over padded rows
    found = {
        "link_loss": out.losses["link"],
        "entropy_loss": out.losses["entropy"] * rows / sum(sizes),
    }
    close(out.x_dense, expected.x.view_as(out.x_dense))
    # Batched, theirs is transposed, for the dense layers of PyG.
    close(out.adj.mT if batched else out.adj, expected.edge_index)
    assert found.keys() == expected.loss.keys()
    for name, loss in found.items():
        torch.testing.assert_close(loss, expected.loss[name], rtol=1e-5, atol=1e-5)
