"""`captured_step` without a GPU: the batch that it passes on, its results and its errors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from diffpool import DiffPooling, SparseGraphs, captured_step
from diffpool.errors import DataError
from diffpool.pooling import StepBatch


def batch(**changes: Any) -> SimpleNamespace:
    """A path of three nodes and a single node."""
    return SimpleNamespace(
        **{
            "x": torch.arange(8.0).view(4, 2),
            "edge_index": torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]),
            "batch": torch.tensor([0, 0, 0, 1]),
            "num_graphs": 2,
            "y": torch.tensor([1, 0]),
            **changes,
        }
    )


def test_the_function_gets_graphs_features_and_targets() -> None:
    seen: list[StepBatch] = []
    captured_step(seen.append, device="cpu")(batch())
    assert seen[0].graphs.layout.sizes.tolist() == [3, 1]
    assert seen[0].num_graphs == 2
    assert torch.equal(seen[0].x, batch().x)
    assert seen[0].y is not None
    assert seen[0].y.tolist() == [1, 0]
    assert SparseGraphs.from_pyg(seen[0]) is seen[0].graphs


def test_a_single_graph_needs_no_batch() -> None:
    step = captured_step(lambda given: given.graphs.readout(given.x, "sum"), device="cpu")
    one = batch(batch=None, y=torch.tensor([1]))
    assert step(one).tolist() == [[12.0, 16.0]]


def test_it_is_a_decorator_with_and_without_a_device() -> None:
    @captured_step
    def step(given: StepBatch) -> Tensor:
        return given.x.sum()

    @captured_step(device="cpu")
    def other(given: StepBatch) -> Tensor:
        return given.x.sum()

    assert float(step(batch())) == float(other(batch())) == 28.0


def test_results_are_copies_without_gradient() -> None:
    weight = torch.ones(2, requires_grad=True)

    @captured_step(device="cpu")
    def step(given: StepBatch) -> dict[str, Any]:
        out = given.x @ weight
        return {"out": out, "parts": (out[0], [weight]), "nothing": None}

    found = step(batch())
    assert not found["out"].requires_grad
    assert found["parts"][1][0].data_ptr() != weight.data_ptr()
    assert found["parts"][0] == 1
    assert found["nothing"] is None


class Found(NamedTuple):
    total: Tensor
    rows: Tensor


def test_named_tuples_are_results_too() -> None:
    step = captured_step(lambda b: (Found(b.x.sum(), b.x), b.x.max(1)), device="cpu")
    found, largest = step(batch())
    assert type(found) is Found
    assert found.total == 28
    assert largest.indices.tolist() == [1, 1, 1, 1]


def test_a_result_of_another_type_is_an_error() -> None:
    with pytest.raises(DataError, match="of a captured step, got StepBatch: return its tensors"):
        captured_step(lambda given: given, device="cpu")(batch())


def test_a_device_without_its_name_is_an_error() -> None:
    with pytest.raises(DataError, match=r"got 'cuda': write @captured_step or @captured_step\(dev"):
        captured_step("cuda")  # type: ignore[call-overload]


def test_a_method_is_an_error() -> None:
    class Trainer:
        @captured_step
        def step(self, given: StepBatch) -> None: ...

    with pytest.raises(DataError, match=r"write `self\.step = captured_step\(self\.step\)`"):
        Trainer().step(batch())


def test_a_model_trains() -> None:
    torch.manual_seed(0)
    pool, head = DiffPooling(2, num_clusters=2), torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD([*pool.parameters(), *head.parameters()], lr=0.1)

    @captured_step(device="cpu")
    def step(given: StepBatch) -> Tensor:
        out = pool(given.x, given.graphs)
        loss = torch.nn.functional.cross_entropy(head(out.graphs.readout(out.x, "mean")), given.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    losses = [float(step(batch())) for _ in range(30)]
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"x": None},
            r"expected the features of 4 nodes as x of the batch, \[N, F\], got NoneType",
        ),
        ({"x": torch.ones(3, 2)}, r"got \[3, 2\]: give every node a row"),
        ({"x": torch.ones(4)}, r"got \[4\]: make it a column"),
        (
            {"y": torch.ones(4)},
            "one row of y for each of 2 graphs, got .*4.*: a captured step takes",
        ),
        ({"y": [0, 1]}, "got list"),
        ({"x": torch.ones(4, 2, requires_grad=True)}, "expected x without gradient"),
        ({"y": torch.ones(2, requires_grad=True)}, "expected y without gradient"),
    ],
)
def test_a_batch_that_does_not_fit_is_an_error(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        captured_step(lambda _: None, device="cpu")(batch(**changes))


def test_what_the_batch_does_not_have_is_an_error() -> None:
    with pytest.raises(AttributeError, match=r"no 'edge_index': use batch\.graphs"):
        captured_step(lambda given: given.edge_index, device="cpu")(batch())
