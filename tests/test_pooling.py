"""The layer `DiffPooling`: its laws, and equality with PyTorch Geometric's dense operator."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from samples import KINDS, Sample, randn, sample
from test_exchange import padded
from torch import Tensor, nn

from diffpool import DiffPooling, PoolingOutput, SparseGraphs
from diffpool.errors import DataError, SettingError
from diffpool.exchange import edge_list
from diffpool.nn import Encoder

SIZES = (5, 1, 7, 4, 2, 6)
SETTINGS: dict[str, dict[str, Any]] = {
    "num_clusters": {"num_clusters": 3},
    "ratio": {"ratio": 0.5, "max_clusters": 4},
    "min_clusters": {"ratio": 0.1, "max_clusters": 4, "min_clusters": 2},
}


def inputs(ragged: Sample) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Features, `edge_index`, `batch` and `edge_weight`."""
    edge_index, weight = edge_list(ragged.sparse)
    batch = torch.repeat_interleave(torch.arange(len(ragged.sizes)), torch.tensor(ragged.sizes))
    return ragged.x, edge_index, batch, weight


def layer(seed: int = 0, features: int = 3, **settings: Any) -> DiffPooling:
    torch.manual_seed(seed)
    return DiffPooling(features, **settings).double().eval()


def call(pool: DiffPooling, ragged: Sample, **more: Any) -> PoolingOutput:
    x, edge_index, batch, weight = inputs(ragged)
    size = len(ragged.sizes)
    return pool(x, edge_index, batch, edge_weight=weight, batch_size=size, **more)


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


# --- laws --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_the_order_of_the_nodes_does_not_matter(settings: dict[str, Any]) -> None:
    ragged = sample(SIZES, weighted=True)
    pool = layer(**settings)
    out, other = call(pool, ragged), call(pool, ragged.relabeled(seed=1))
    close(out.x, other.x)
    close(out.adj, other.adj)
    close(out.loss, other.loss)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_a_graph_is_pooled_the_same_alone_and_in_a_batch(settings: dict[str, Any]) -> None:
    ragged = sample(SIZES, directed=True)
    pool = layer(**settings)
    whole = call(pool, ragged)
    for g in range(len(SIZES)):
        alone = call(pool, ragged.of([g]))
        k = alone.x.shape[0]
        close(whole.x[whole.batch == g], alone.x)
        close(whole.adj[g, :k, :k], alone.adj[0])
        close(whole.assignment.of_graph(g), alone.assignment.of_graph(0))
        for name in ("link", "entropy"):
            close(whole.losses[name][g], alone.losses[name][0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_pooling_keeps_the_total_edge_weight_and_the_sum_of_the_features(
    settings: dict[str, Any], kind: str
) -> None:
    ragged = sample(SIZES, **KINDS[kind])
    out = call(layer(**settings), ragged)
    close(out.adj.sum((1, 2)), torch.stack([a.sum() for a in ragged.adjs]))
    close(out.x_dense.sum(1), torch.stack([x.sum(0) for x in ragged.xs]))
    close(out.assignment.s.sum(1), torch.ones(sum(SIZES), dtype=torch.float64))


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_gradients_are_finite_and_reach_everything(settings: dict[str, Any]) -> None:
    ragged = sample(SIZES, weighted=True)
    pool = layer(**settings)
    x, edge_index, batch, weight = inputs(ragged)
    assert weight is not None
    x, weight = x.requires_grad_(), weight.requires_grad_()
    out = pool(x, edge_index, batch, edge_weight=weight)
    (out.loss + out.x.square().sum() + out.edge_weight.square().sum()).backward()
    for tensor in (x, weight, *pool.parameters()):
        assert tensor.grad is not None
        assert tensor.grad.isfinite().all()
        assert tensor.grad.abs().sum() > 0


def test_the_equations_hold_for_each_graph() -> None:
    ragged = sample(SIZES, directed=True, weighted=True)
    logits = randn(sum(SIZES), 3, seed=1)
    out = call(DiffPooling(link_weight=2, entropy_weight=0.5), ragged, s=logits)
    rows = logits.split(SIZES)
    for g, (a, x, row) in enumerate(zip(ragged.adjs, ragged.xs, rows, strict=True)):
        s = row.softmax(1)
        close(out.x_dense[g], s.T @ x)
        close(out.adj[g], (s.T @ a @ s).T)  # from source to target
        close(out.losses["link"][g], (a - s @ s.T).norm())
        close(out.losses["entropy"][g], -(s * s.log()).sum(1).mean())
        close(out.assignment.of_graph(g), s)
    close(out.loss, (2 * out.losses["link"] + 0.5 * out.losses["entropy"]).mean())


# --- the number of clusters ------------------------------------------------------------------------------------------


def test_num_clusters_gives_every_graph_as_many() -> None:
    out = call(layer(num_clusters=3), sample((5, 0, 1)))
    assert out.batch.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert out.mask.all()
    assert out.x_dense.shape == (3, 3, 3)
    assert out.batch_size == 3


def test_a_ratio_gives_each_graph_a_share_of_its_own_nodes() -> None:
    pool = layer(ratio=0.5, max_clusters=4)
    assert call(pool, sample((5, 0, 1, 20))).graphs.layout.sizes.tolist() == [3, 0, 1, 4]
    pool = layer(ratio=0.5, max_clusters=4, min_clusters=2)
    out = call(pool, sample((5, 0, 1, 2)))
    assert out.graphs.layout.sizes.tolist() == [3, 0, 1, 2]
    assert out.mask.tolist() == [[True] * 3, [False] * 3, [True, False, False], [True, True, False]]
    assert (out.x_dense[~out.mask] == 0).all()


def test_with_an_assignment_network_its_outputs_are_the_number_of_clusters() -> None:
    ragged = sample(SIZES)
    assign = nn.Linear(3, 6, dtype=torch.float64)
    assert call(DiffPooling(assign=assign), ragged).x_dense.shape == (6, 6, 3)
    out = call(DiffPooling(assign=assign, ratio=0.5), ragged)
    assert out.graphs.layout.sizes.tolist() == [3, 1, 4, 2, 1, 3]


# --- the input -------------------------------------------------------------------------------------------------------


def test_without_a_batch_there_is_one_graph() -> None:
    ragged = sample((6,))
    x, edge_index, batch, _ = inputs(ragged)
    pool = layer(num_clusters=2)
    out, other = pool(x, edge_index), pool(x, edge_index, batch, batch_size=1)
    assert out.batch.tolist() == [0, 0]
    close(out.x, other.x)
    close(out.adj, other.adj)


def test_the_assignment_may_read_other_features_than_those_that_are_pooled() -> None:
    ragged = sample(SIZES)
    z = randn(sum(SIZES), 7, seed=2)
    x, edge_index, batch, _ = inputs(ragged)
    pool = layer(num_clusters=3)
    out, usual = pool(z, edge_index, batch, assign_x=x), pool(x, edge_index, batch)
    close(out.assignment.s, usual.assignment.s)
    for g, s in enumerate(usual.assignment.s.split(SIZES)):
        close(out.x_dense[g], s.T @ z.split(SIZES)[g])


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("kind", ["undirected", "directed"])
def test_the_next_level_is_the_same_in_every_format(settings: dict[str, Any], kind: str) -> None:
    x, edge_index, batch, _ = inputs(sample(SIZES, **KINDS[kind]))
    x.requires_grad_()
    first = layer(**settings)(x, edge_index, batch)
    h = randn(*first.x.shape, seed=3)
    pool = layer(seed=1, ratio=0.5, max_clusters=2)
    padding = torch.zeros_like(first.x_dense)
    padding[first.mask] = h
    results = [
        pool(h, first.graphs),
        pool(h, first.edge_index, first.batch, edge_weight=first.edge_weight),
        pool(padding, first.adj, mask=first.mask),
    ]
    gradients = []
    for out in results:
        close(out.x, results[0].x)
        close(out.adj, results[0].adj)
        close(out.loss, results[0].loss)
        value = out.loss + out.adj.square().sum()
        gradients.append(torch.autograd.grad(value, x, retain_graph=True)[0])
    for gradient in gradients:
        close(gradient, gradients[0])
    assert gradients[0].abs().sum() > 0


def test_graphs_may_be_made_once_and_pooled_often() -> None:
    ragged = sample(SIZES)
    x, edge_index, batch, _ = inputs(ragged)
    pool = layer(num_clusters=3)
    expected = pool(x, edge_index, batch)
    for dtype in (torch.float32, torch.float64):  # converted to that of the features
        out = pool(x, SparseGraphs.from_edge_index(edge_index, batch, dtype=dtype))
        close(out.x, expected.x)
        close(out.loss, expected.loss)


@pytest.mark.parametrize("sizes", [(), (0,), (0, 0), (1,), (3, 0, 1)])
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_batches_without_graphs_nodes_or_edges(
    settings: dict[str, Any], sizes: tuple[int, ...]
) -> None:
    x = randn(sum(sizes), 3, seed=0).requires_grad_()
    none = torch.empty(2, 0, dtype=torch.int64)
    batch = torch.repeat_interleave(
        torch.arange(len(sizes)), torch.tensor(sizes, dtype=torch.int64)
    )
    pool = layer(**settings)
    out = pool(x, none, batch, batch_size=len(sizes))
    assert out.batch_size == len(sizes) == len(out.adj) == len(out.losses["link"])
    assert (out.adj == 0).all()
    assert out.edge_index.shape == (2, int(out.graphs.layout.sizes.square().sum()))
    assert out.lift(out.x).shape == x.shape
    assert out.loss.isfinite()
    (out.loss + out.x.sum()).backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


# --- the output ------------------------------------------------------------------------------------------------------


def test_the_output_is_made_only_when_asked_for() -> None:
    out = call(layer(num_clusters=3), sample(SIZES))
    assert not {"adj", "mask", "x_dense", "_edges"} & vars(out).keys()
    assert out.adj is out.adj
    assert out.edge_index is out.edge_index
    assert {"adj", "_edges"} <= vars(out).keys()
    with pytest.raises(AttributeError):
        out.x = out.x  # type: ignore[misc]
    assert repr(out) == (
        "PoolingOutput(x=[18, 3], graphs=DenseGraphs(6 graphs, 18 nodes, largest 3), losses=['entropy', 'link'])"
    )


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_lift_is_the_product_with_s(settings: dict[str, Any]) -> None:
    out = call(layer(**settings), sample(SIZES))
    h = randn(out.x.shape[0], 4, seed=5)
    parts = [out.assignment.of_graph(g) @ h[out.batch == g] for g in range(len(SIZES))]
    close(out.lift(h), torch.cat(parts))
    dense = h.new_zeros(len(SIZES), out.mask.shape[1], 4)
    dense[out.mask] = h
    close(out.lift(dense), out.lift(h))


# --- assignment networks ---------------------------------------------------------------------------------------------


class Recorder(nn.Module):
    """An assignment network that records what it is called with."""

    def __init__(self, clusters: int):
        super().__init__()
        self.linear = nn.Linear(3, clusters, dtype=torch.float64)
        self.seen: dict[str, Any] = {}

    def record(self, x: Tensor, **seen: Any) -> Tensor:
        self.seen = seen
        return self.linear(x)


class OfEdges(Recorder):
    def forward(self, x, edge_index, edge_weight=None, edge_attr=None, batch=None, batch_size=None):  # type: ignore[no-untyped-def]
        return self.record(
            x,
            edge_index=edge_index,
            edge_weight=edge_weight,
            edge_attr=edge_attr,
            batch=batch,
            batch_size=batch_size,
        )


class OfEdgesOnly(Recorder):
    def forward(self, x, edge_index, size=None):  # type: ignore[no-untyped-def]
        return self.record(x, edge_index=edge_index, size=size)


class OfAdj(Recorder):
    def forward(self, x, adj, mask=None):  # type: ignore[no-untyped-def]
        return self.record(x, adj=adj, mask=mask)


class OfGraphs(Recorder):
    def forward(self, graphs, x):  # type: ignore[no-untyped-def]
        return self.record(x, graphs=graphs)


class OfNodes(Recorder):
    def forward(self, features):  # type: ignore[no-untyped-def]
        return self.record(features)


def test_a_module_is_called_by_the_names_of_its_arguments() -> None:
    ragged = sample(SIZES, weighted=True)
    x, edge_index, batch, weight = inputs(ragged)
    attributes = torch.rand(edge_index.shape[1], 2)
    given = {"edge_weight": weight, "edge_attr": attributes, "batch_size": len(SIZES)}
    expected = None
    for kind in (OfEdges, OfEdgesOnly, OfGraphs, OfNodes):
        torch.manual_seed(0)
        assign = kind(3)
        out = DiffPooling(assign=assign)(x, edge_index, batch, **given)
        expected = out if expected is None else expected
        close(out.adj, expected.adj)
        if kind is OfEdges:
            assert assign.seen["edge_index"] is edge_index
            assert assign.seen["edge_weight"] is weight
            assert assign.seen["edge_attr"] is attributes
            assert torch.equal(assign.seen["batch"], batch)
            assert assign.seen["batch_size"] == len(SIZES)
        elif kind is OfEdgesOnly:
            assert assign.seen["size"] is None
        elif kind is OfGraphs:
            assert isinstance(assign.seen["graphs"], SparseGraphs)


def test_modules_for_edges_and_for_padded_graphs_work_on_coarse_levels() -> None:
    first = call(layer(ratio=0.5, max_clusters=4), sample(SIZES))
    for kind in (OfEdges, OfAdj):
        assign = kind(2)
        out = DiffPooling(assign=assign)(first.x, first.graphs)
        s = torch.cat([out.assignment.of_graph(g) for g in range(len(SIZES))])
        close(s, assign.linear(first.x).softmax(1))
        if kind is OfEdges:
            assert torch.equal(assign.seen["edge_index"], first.edge_index)
            close(assign.seen["edge_weight"], first.edge_weight)
        else:
            close(assign.seen["adj"], first.adj)
            assert torch.equal(assign.seen["mask"], first.mask)


def test_an_encoder_of_the_package_gets_the_clusters_of_each_graph() -> None:
    torch.manual_seed(0)
    own = DiffPooling(3, ratio=0.5, max_clusters=4).double().eval()
    encoder = copy.deepcopy(own.assign)
    assert isinstance(encoder, Encoder)
    other = DiffPooling(assign=encoder, ratio=0.5)
    ragged = sample(SIZES)
    close(call(own, ragged).x, call(other, ragged).x)


def test_reset_parameters_initializes_every_part_again() -> None:
    pools = [DiffPooling(3, num_clusters=2), DiffPooling(assign=nn.Sequential(nn.Linear(3, 2)))]
    for pool in pools:
        before = [p.detach().clone() for p in pool.parameters()]
        with torch.no_grad():
            for p in pool.parameters():
                p.fill_(7)
        pool.reset_parameters()
        for p, shape in zip(pool.parameters(), before, strict=True):
            assert p.shape == shape.shape
            assert (p != 7).all()
        torch.manual_seed(1)
        pool.reset_parameters()
        once = [p.detach().clone() for p in pool.parameters()]
        torch.manual_seed(1)
        pool.reset_parameters()
        assert all(torch.equal(p, q) for p, q in zip(pool.parameters(), once, strict=True))
    DiffPooling().reset_parameters()  # without parameters


def test_a_layer_can_be_copied_saved_and_printed() -> None:
    pool = layer(ratio=0.25, max_clusters=4, losses="pyg")
    ragged = sample(SIZES)
    expected = call(pool, ragged).x
    for other in (copy.deepcopy(pool), pickle.loads(pickle.dumps(pool))):
        close(call(other, ragged).x, expected)
    other = layer(seed=5, ratio=0.25, max_clusters=4)
    other.load_state_dict(pool.state_dict())
    close(call(other, ragged).x, expected)
    first, second, *_ = repr(pool).splitlines()
    assert first == "DiffPooling("
    assert second.strip() == "in_channels=3, ratio=0.25, max_clusters=4, losses='pyg'"
    assert repr(DiffPooling()) == "DiffPooling()"


# --- torch.compile and mixed precision -----------------------------------------------------------------------------


class Model(nn.Module):
    """Two poolings, the first with an assignment network of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(3, 8)
        self.first = DiffPooling(assign=nn.Linear(8, 4), ratio=0.5)
        self.second = DiffPooling(8, num_clusters=2)
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
        h = self.embed(x).relu()
        out = self.first(h, edge_index, batch)
        last = self.second(out.x.relu(), out.graphs)
        return self.head(last.x_dense.mean(1)), out.loss + last.loss + out.lift(out.x).mean()


def values_and_gradients(model: nn.Module, *arguments: Tensor) -> list[Tensor]:
    model.zero_grad()
    logits, loss = model(*arguments)
    (logits.float().square().sum() + loss).backward()
    return [logits, loss, *(p.grad for p in model.parameters() if p.grad is not None)]


def test_a_compiled_model_gives_the_same_results() -> None:
    torch.manual_seed(0)
    model = Model().eval()
    compiled = torch.compile(model, backend="aot_eager")
    for sizes in (SIZES, (3, 8)):
        x, edge_index, batch, _ = inputs(sample(sizes).to(torch.float32))
        expected = values_and_gradients(model, x, edge_index, batch)
        found = values_and_gradients(compiled, x, edge_index, batch)
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_under_autocast_the_pooling_is_done_in_float32() -> None:
    torch.manual_seed(0)
    model = Model().eval()
    x, edge_index, batch, _ = inputs(sample(SIZES).to(torch.float32))
    expected = values_and_gradients(model, x, edge_index, batch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        h = model.embed(x)
        out = model.first(h, edge_index, batch)
        found = values_and_gradients(model, x, edge_index, batch)
    assert h.dtype == torch.bfloat16
    for tensor in (out.x, out.adj, out.edge_weight, out.assignment.s, out.loss):
        assert tensor.dtype == torch.float32
    assert out.lift(h[: len(out.x)]).dtype == torch.bfloat16
    for a, b in zip(found, expected, strict=True):
        assert (a.float() - b).norm() < 0.1 * b.norm() + 1e-3


def test_features_in_half_precision_are_pooled_in_float32() -> None:
    x, edge_index, batch, _ = inputs(sample(SIZES).to(torch.bfloat16))
    logits = randn(sum(SIZES), 3, seed=0).bfloat16()
    pool = DiffPooling()
    out = pool(x, edge_index, batch, s=logits)
    exact = pool(x.float(), edge_index, batch, s=logits.float())
    assert out.x.dtype == out.adj.dtype == out.edge_weight.dtype == torch.bfloat16
    assert torch.equal(out.x, exact.x.bfloat16())
    assert torch.equal(out.adj, exact.adj.bfloat16())
    assert torch.equal(out.loss, exact.loss)


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"in_channels": 0, "num_clusters": 2},
            "in_channels to be an integer of at least 1, got 0",
        ),
        ({"in_channels": nn.Linear(3, 2)}, "in_channels.*got Linear.*a module goes to assign="),
        ({"num_clusters": 2.5}, "num_clusters to be an integer of at least 1, got 2.5"),
        ({"ratio": 1.5}, "a ratio above 0 and up to 1, got 1.5"),
        ({"ratio": 0.5, "num_clusters": 3}, "num_clusters or ratio, got both.*use max_clusters"),
        ({"max_clusters": 3}, "max_clusters and min_clusters only with a ratio"),
        ({"min_clusters": 3}, "max_clusters and min_clusters only with a ratio"),
        ({"in_channels": 3, "assign": nn.Linear(3, 2)}, "in_channels.*or assign, got both: leave"),
        ({"in_channels": 3}, "number of outputs of the assignment network: give num_clusters"),
        ({"in_channels": 3, "ratio": 0.5}, "number of outputs.*or max_clusters with a ratio"),
        ({"losses": "tgp"}, "losses to be 'paper' or 'pyg', got 'tgp'"),
    ],
)
def test_wrong_settings_are_explained(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        DiffPooling(**settings)


def test_a_module_that_does_not_name_its_arguments_is_refused() -> None:
    class Anything(nn.Module):
        def forward(self, *args, **kwargs):  # type: ignore[no-untyped-def]
            return args[0]

    with pytest.raises(SettingError, match=r"forward names its arguments, got Anything.*wrap it"):
        DiffPooling(assign=Anything())


N = sum(SIZES)
X = torch.zeros(N, 3, dtype=torch.float64)


@pytest.mark.parametrize(
    ("settings", "arguments", "message"),
    [
        ({}, {}, "expected logits, because this layer has no assignment network: pass s="),
        ({}, {"s": X, "assign_x": X}, "either s or assign_x, got both"),
        ({}, {"s": X[1:]}, r"one row of features for each of 25 nodes.*got \[24, 3\]"),
        ({}, {"s": X.long()}, r"expected logits \[25, clusters\].*got torch.int64"),
        ({}, {"s": X, "mask": torch.ones(2, 2).bool()}, "a mask only with adj"),
        ({"num_clusters": 4}, {"s": X}, "num_clusters=4 columns, got 3: make the assignment"),
        ({"ratio": 0.9, "max_clusters": 9}, {"s": X}, "7 clusters of the largest graph, got 3"),
        (
            {"assign": OfAdj(2)},
            {},
            "for edge lists, got OfAdj for dense adjacency.*sparse counterpart",
        ),
        ({}, {"s": X, "x": X[1:]}, r"25 nodes, \[N, D\], got \[24, 3\]"),
        ({}, {"s": X, "x": X[0]}, r"25 nodes, \[N, D\], got \[3\]"),
    ],
)
def test_wrong_arguments_are_explained(
    settings: dict[str, Any], arguments: dict[str, Any], message: str
) -> None:
    x, edge_index, batch, _ = inputs(sample(SIZES))
    pool = DiffPooling(**settings)
    with pytest.raises(DataError, match=message):
        pool(arguments.pop("x", x), edge_index, batch, **arguments)


def test_an_unsorted_batch_is_explained() -> None:
    x, edge_index, batch, _ = inputs(sample(SIZES))
    with pytest.raises(DataError, match=r"`batch`.*in ascending order.*sort the nodes by graph"):
        layer(num_clusters=2)(x, edge_index, batch.flip(0))


def test_graphs_and_padded_input_take_no_batch() -> None:
    ragged = sample(SIZES)
    x, _, batch, _ = inputs(ragged)
    pool = layer(num_clusters=2)
    with pytest.raises(DataError, match=r"no batch.*with graphs, which have their own: leave"):
        pool(x, ragged.sparse, batch)
    adj, h, mask = padded(ragged, 7)
    with pytest.raises(DataError, match=r"no batch.*with adj \[B, n, n\].*leave"):
        pool(h, adj, batch, mask=mask)
    with pytest.raises(
        DataError, match=r"in the precision of the graphs, torch.float64, got torch.f"
    ):
        pool(x.float(), ragged.dense)


def test_features_of_the_wrong_level_cannot_be_lifted() -> None:
    out = call(layer(num_clusters=2), sample(SIZES))
    with pytest.raises(DataError, match=r"one row for each of 12 clusters, got \[25, 3\]: lift"):
        out.lift(sample(SIZES).x)


# --- PyTorch Geometric -----------------------------------------------------------------------------------------------


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
    logits = randn(N, 3, seed=4).float()
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


def test_layers_and_models_of_pyg_compute_the_assignment() -> None:
    pyg = pytest.importorskip("torch_geometric.nn")
    ragged = sample(SIZES, weighted=True).to(torch.float32)
    x, edge_index, batch, weight = inputs(ragged)
    attributes = torch.rand(edge_index.shape[1], 2)
    modules = {
        "SAGEConv": pyg.SAGEConv(3, 4),
        "GCNConv": pyg.GCNConv(3, 4),
        "GATv2Conv": pyg.GATv2Conv(3, 4, edge_dim=2),
        "GIN": pyg.GIN(3, 8, 2, 4),
        "MLP": pyg.MLP([3, 8, 4]),
        "Sequential": pyg.Sequential("x, edge_index", [(pyg.SAGEConv(3, 4), "x, edge_index -> x")]),
    }
    for name, module in modules.items():
        pool = DiffPooling(assign=module.eval())
        out = pool(x, edge_index, batch, edge_weight=weight, edge_attr=attributes)
        if name == "MLP":
            logits = module(x)
        elif name == "GCNConv":
            logits = module(x, edge_index, weight)
        elif name == "GATv2Conv":
            logits = module(x, edge_index, attributes)
        else:
            logits = module(x, edge_index)
        torch.testing.assert_close(out.assignment.s, logits.softmax(1), rtol=1e-5, atol=1e-6)
        assert pool(out.x, out.graphs).x.shape == out.x.shape or name == "GATv2Conv"
        pool.reset_parameters()


def test_dense_layers_of_pyg_compute_the_assignment_of_a_coarse_level() -> None:
    pyg = pytest.importorskip("torch_geometric.nn")
    out = call(layer(ratio=0.5, max_clusters=4), sample(SIZES))
    conv = pyg.DenseSAGEConv(3, 2).double()
    last = DiffPooling(assign=conv)(out.x, out.graphs)
    logits = conv(out.x_dense, out.adj, out.mask)[out.mask]
    close(last.assignment.s, logits.softmax(1))


def test_the_edge_list_and_the_matrices_are_in_the_format_of_pyg() -> None:
    utils = pytest.importorskip("torch_geometric.utils")
    out = call(layer(ratio=0.5, max_clusters=4), sample(SIZES, directed=True))
    adj = utils.to_dense_adj(out.edge_index, out.batch, out.edge_weight, batch_size=len(SIZES))
    torch.testing.assert_close(adj, out.adj)
    x, mask = utils.to_dense_batch(out.x, out.batch, batch_size=len(SIZES))
    torch.testing.assert_close(x, out.x_dense)
    assert torch.equal(mask, out.mask)


# The cases that PyTorch Geometric tests of `dense_diff_pool`, and torch-geometric-pool of `get_pooler("diff")`.


def test_a_padded_batch_has_the_shapes_and_losses_that_pyg_tests() -> None:
    graphs, nodes, channels, clusters = 2, 20, 16, 10
    x, adj = torch.randn(graphs, nodes, channels), torch.rand(graphs, nodes, nodes)
    mask = torch.rand(graphs, nodes) < 0.5
    out = DiffPooling(losses="pyg")(x, adj, mask=mask, s=torch.randn(graphs, nodes, clusters))
    assert out.x_dense.shape == (2, 10, 16)
    assert out.adj.shape == (2, 10, 10)
    assert out.losses["link"] >= 0
    assert 0 <= out.losses["entropy"] <= torch.tensor(10.0).log()


@pytest.mark.parametrize("training", [True, False])
def test_dense_edge_list_and_ragged_input_give_the_same_layer(training: bool) -> None:
    """Batched and unbatched mode of torch-geometric-pool: here, formats of the input."""
    ragged = sample((6, 6, 6), weighted=True)
    adj, x, _ = padded(ragged, 6)
    pool = layer(num_clusters=3).train(training)
    start = copy.deepcopy(pool.state_dict())
    dense = pool(x, adj)
    pool.load_state_dict(start)
    sparse = call(pool, ragged)
    close(dense.assignment.s, sparse.assignment.s)
    close(dense.x, sparse.x)
    close(dense.adj, sparse.adj)
    for name in dense.losses:
        close(dense.losses[name], sparse.losses[name])


def test_random_directed_edges_with_duplicates_are_pooled() -> None:
    torch.manual_seed(42)
    x, batch = torch.randn(25, 16), torch.tensor([0] * 10 + [1] * 15)
    edges = torch.cat([torch.randint(0, 10, (2, 20)), torch.randint(10, 25, (2, 30))], 1)
    for pool in (DiffPooling(16, num_clusters=5), DiffPooling(assign=nn.Linear(16, 5))):
        out = pool(x, edges, batch)
        assert out.x_dense.shape == (2, 5, 16)
        assert out.adj.shape == (2, 5, 5)
        assert out.edge_index.shape == (2, 50)
        assert out.x.shape == (len(out.batch), 16)
        assert out.lift(out.x).shape == x.shape
    unique = torch.unique(edges, dim=1)
    torch.testing.assert_close(out.adj.sum((1, 2)), (batch[unique[0]].bincount()).float())
    assert pool(x[:10], edges[:, :20]).x_dense.shape == (1, 5, 16)


@pytest.mark.parametrize("edges", [0, 1])
def test_single_nodes_pairs_and_isolated_nodes_have_finite_losses(edges: int) -> None:
    pair = torch.tensor([[0, 1], [1, 0]])[:, : 2 * edges]
    for nodes in (1 + edges, 5):
        logits = torch.randn(nodes, 1 + nodes // 3, requires_grad=True)
        out = DiffPooling()(torch.randn(nodes, 2), pair, s=logits)
        out.loss.backward()
        assert out.loss.isfinite()
        assert logits.grad is not None
        assert logits.grad.isfinite().all()
    one = DiffPooling()(torch.ones(2, 1), pair, s=torch.zeros(2, 1))
    # A − SSᵀ for a single cluster: −1 everywhere, except where there is an edge
    torch.testing.assert_close(one.losses["link"], torch.tensor([4.0 - 2 * edges]).sqrt())
    assert one.losses["entropy"].tolist() == [0]
