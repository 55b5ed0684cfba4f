"""Steps on batches in fixed buffers: the same losses and gradients as on the batches themselves."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from diffpool import DiffPooling, SparseGraphs, captured_step
from diffpool.backends import steps, use_backend
from diffpool.backends.steps import can_replay
from diffpool.errors import DataError
from diffpool.graphs import Prepared
from diffpool.nn import Clusters, DiffPool, Encoder, GraphClassifier, Sage

pytestmark = pytest.mark.triton


class Model(nn.Module):
    """Two poolings, by a share of the nodes and by a number, and every kind of readout."""

    def __init__(self, losses: Any = "paper"):
        super().__init__()
        self.embed = nn.ModuleList(Encoder(Sage, [i, 6, 5]) for i in (3, 5))
        share = Encoder(Sage, [3, 4], last_order=("batch",))
        self.first = DiffPooling(assign=share, ratio=0.4, min_clusters=2, losses=losses)
        self.second = DiffPooling(5, 2, num_layers=1, losses=losses)
        self.head = nn.Linear(15, 3)

    def forward(self, batch: Any) -> tuple[Tensor, Tensor]:
        graphs: Any = SparseGraphs.from_pyg(batch)
        first = self.first(self.embed[0](graphs, batch.x), graphs, assign_x=batch.x)
        second = self.second(self.embed[1](first.graphs, first.x), first.graphs)
        kinds: Any = ("sum", "mean", "max")
        readouts = [second.graphs.readout(second.x, kind) for kind in kinds]
        return self.head(torch.cat(readouts, 1)), first.loss + second.loss


def classifier() -> nn.Module:
    network = GraphClassifier(
        encoders=[Encoder(Sage, [3, 8]), Encoder(Sage, [8, 8])],
        poolers=[DiffPool(Encoder(Sage, [3, 3]))],
        clusters=[Clusters(max_count=3, ratio=0.5)],
        head=nn.Linear(8, 3),
    )

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, batch: Any) -> tuple[Tensor, Tensor]:
            prediction = self.network(batch)
            return prediction.logits, prediction.losses["link"].mean()

    return Wrapped()


class Padded(nn.Module):
    """The padded formats of a pooling, and back from them."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = DiffPooling(3, ratio=0.4, max_clusters=6, num_layers=1)
        self.next = DiffPooling(assign=Matrices())
        self.head = nn.Linear(3, 3)

    def forward(self, batch: Any) -> tuple[Tensor, Tensor]:
        graphs: Any = SparseGraphs.from_pyg(batch)
        out = self.pool(batch.x, graphs)
        last = self.next(out.x, out.graphs)
        h = (out.adj @ (out.x_dense + 0.1)).tanh() * out.mask[..., None]
        nodes = out.lift(h) + out.lift(out.x.tanh())
        logits = self.head(graphs.readout(nodes, "mean")) + last.x_dense.tanh().sum(1)
        return logits, out.loss + last.loss


class Matrices(nn.Module):
    """An assignment network for padded tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x: Tensor, adj: Tensor, mask: Tensor) -> Tensor:
        return self.linear(x + adj @ x) * mask[..., None]


def batch_of(
    sizes: list[int], seed: int, weighted: bool = False, directed: bool = False
) -> SimpleNamespace:
    """Random graphs in PyTorch Geometric's format."""
    generator = torch.Generator().manual_seed(seed)
    batch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    dense = torch.rand(len(batch), len(batch), generator=generator) * (batch[:, None] == batch)
    dense = torch.where(dense > 0.5, dense, 0)
    dense = dense if directed else dense.triu(1) + dense.triu(1).T
    edge_index = dense.nonzero().T
    found = SimpleNamespace(
        edge_index=edge_index,
        batch=batch,
        num_graphs=len(sizes),
        x=torch.randn(len(batch), 3, generator=generator),
        y=torch.randint(3, (len(sizes),), generator=generator),
    )
    if weighted:
        found.edge_weight = dense[edge_index[0], edge_index[1]]
    return found


def star(leaves: int) -> SimpleNamespace:
    """A graph whose first node is a neighbor of all others, and a path of two nodes."""
    other = torch.arange(1, leaves + 1)
    edges = torch.cat(
        [torch.stack([0 * other, other]), torch.tensor([[leaves + 1], [leaves + 2]])], 1
    )
    found = batch_of([leaves + 1, 2], 9)
    found.edge_index = torch.cat([edges, edges.flip(0)], 1)
    return found


BATCHES = {
    "plain": [
        batch_of([12, 7, 6], 2),
        batch_of([5, 4, 1], 0),
    ],  # the second leaves rests of the first
    "weighted": [batch_of([5, 3], 3, weighted=True), batch_of([2, 6], 4, weighted=True)],
    "directed": [batch_of([5, 3], 5, directed=True), batch_of([7, 1], 6, directed=True)],
    "last is smaller": [batch_of([5, 6, 4], 7), batch_of([8], 8)],
    "a node with many edges": [star(40)],
}
MODELS: dict[str, Callable[[], nn.Module]] = {
    "layers": Model,
    "layers with the losses of dense_diff_pool": lambda: Model("pyg"),
    "classifier": classifier,
    "padded": Padded,
}


def results(model: nn.Module, batches: list[Any], device: str, captured: bool) -> list[Tensor]:
    """The loss, logits and gradients of every batch, and the statistics at the end."""
    model = copy.deepcopy(model).to(device)

    def step(batch: Any) -> list[Tensor]:
        logits, auxiliary = model(batch)
        loss = F.cross_entropy(logits, batch.y) + auxiliary
        model.zero_grad()
        loss.backward()
        return [loss, logits, *(p.grad for p in model.parameters())]

    run = captured_step(step, device=device) if captured else step
    found: list[Tensor] = []
    for _ in range(3 if device == "cuda" else 1):  # as it is, captured, and replayed
        for batch in batches:
            given = batch if captured else moved(batch, device)
            found += [t.detach().clone() for t in run(given)]
    return found + [t.detach() for t in model.state_dict().values()]


def moved(batch: SimpleNamespace, device: str) -> SimpleNamespace:
    values = vars(batch).items()
    return SimpleNamespace(
        **{name: v.to(device) if isinstance(v, Tensor) else v for name, v in values}
    )


@pytest.fixture(autouse=True)
def unwritten_memory_is_nan(device: str) -> Iterator[None]:
    """In the interpreter, so that a result that depends on memory that nothing has written is NaN."""
    torch.use_deterministic_algorithms(device == "cpu")  # which fills new memory with NaN
    yield
    torch.use_deterministic_algorithms(False)


CASES = [("layers", kind) for kind in BATCHES]
CASES += [(name, "plain") for name in MODELS if name != "layers"]
CASES += [("classifier", "directed")]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_captured_step_has_the_results_of_a_plain_one(name: str, kind: str, device: str) -> None:
    torch.manual_seed(0)
    model = MODELS[name]()
    ours = results(model, BATCHES[kind], device, captured=True)
    with use_backend("reference"):
        plain = results(model, BATCHES[kind], device, captured=False)
    for found, expected in zip(ours, plain, strict=True):
        torch.testing.assert_close(found, expected, rtol=2e-3, atol=2e-5)


@pytest.mark.parametrize(
    "read",
    [
        lambda graphs, out: graphs.edge_index,
        lambda graphs, out: graphs.to_pyg(),
        lambda graphs, out: out.edge_index,
    ],
)
def test_formats_that_depend_on_the_sizes_are_an_error(
    read: Callable[[Any, Any], Any], device: str
) -> None:
    pool = DiffPooling(3, 2).to(device)
    step = captured_step(lambda b: read(b.graphs, pool(b.x, b.graphs)), device=device)
    with pytest.raises(DataError, match="edge_index in a captured step, where only the GPU knows"):
        step(BATCHES["plain"][0])


def test_a_step_may_run_in_inference_mode_first(device: str) -> None:
    step = captured_step(lambda b: b.graphs.readout(b.x, "sum"), device=device)
    with torch.inference_mode():
        first = step(BATCHES["plain"][0])
    assert torch.equal(step(BATCHES["plain"][0]), first)


def test_graphs_that_the_buffers_cannot_hold_are_not_captured() -> None:
    graphs = SparseGraphs.from_edges([2, 2], [0, 1], [1, 0])
    prepared = replace(graphs, prepared=Prepared(what="something"))
    x, cpu = torch.ones(4, 3), torch.device("cpu")
    assert can_replay(graphs, x, cpu)
    assert not can_replay(prepared, x, cpu)
    assert not can_replay(graphs.repeated(2), x.repeat(2, 1), cpu)


def test_a_copy_of_a_module_captures_its_own_steps(device: str) -> None:
    class Trainer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))
            self.step = captured_step(self.total, device=device)

        def total(self, batch: Any) -> Tensor:
            return batch.graphs.readout(batch.x * self.scale, "sum")

    trainer = Trainer().to(device)
    batch = BATCHES["plain"][0]
    expected = trainer.step(batch)
    twin = copy.deepcopy(trainer)
    twin.scale.data.mul_(2)
    assert torch.equal(twin.step(batch), 2 * expected)
    assert torch.equal(trainer.step(batch), expected)


def test_batches_of_too_many_sizes_run_without_capture(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "MAX_SHAPES", 1)
    torch.manual_seed(0)
    pool = DiffPooling(3, num_clusters=2).to(device)
    step = captured_step(lambda batch: pool(batch.x, batch.graphs).x, device=device)
    with use_backend("reference"):
        batches = [moved(batch, device) for batch in BATCHES["last is smaller"]]
        expected = [pool(b.x, b.edge_index, b.batch).x.detach() for b in batches]
    first = step(BATCHES["last is smaller"][0])
    with pytest.warns(UserWarning, match="captured 1 sizes of batches; batches of other sizes run"):
        second = step(BATCHES["last is smaller"][1])
    torch.testing.assert_close(first[: len(expected[0])], expected[0], rtol=2e-3, atol=2e-5)
    torch.testing.assert_close(second, expected[1], rtol=2e-3, atol=2e-5)
