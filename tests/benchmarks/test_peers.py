"""The peers compute what they claim, and the benchmarks report correct rates and ratios."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import contest

competitors = pytest.importorskip("benchmarks.competitors")
cross_validation = pytest.importorskip("benchmarks.cross_validation")
scaling = pytest.importorskip("benchmarks.scaling")
pyg_dense = pytest.importorskip("benchmarks.pyg_dense")
tgp_pool = pytest.importorskip("benchmarks.tgp_pool")

needs_tgp = pytest.mark.skipif(
    find_spec("tgp") is None, reason="torch-geometric-pool is not installed"
)


@pytest.fixture
def setting() -> Any:
    return competitors.Setting(scaling.random_graphs(24, graphs=24), workers=2)


def test_pyg_gets_the_same_graphs(setting: Any) -> None:
    dataset = setting.dataset
    for g, data in enumerate(setting.graphs):
        own = dataset.batch([g])
        adj = torch.zeros(24, 24)
        adj[data.edge_index[1], data.edge_index[0]] = 1
        torch.testing.assert_close(own.graphs.propagate(torch.eye(24)), adj)
        torch.testing.assert_close(own.x, data.x)
        torch.testing.assert_close(own.y, data.y)


def test_worker_processes_give_the_requested_batches(setting: Any) -> None:
    loaded, collated = competitors.loaded(setting), competitors.collated(setting)
    for chosen in (np.array([[3, 1], [20, 0], [5, 7]]), np.array([[2, 4]])):
        batches = list(loaded(chosen))
        assert len(batches) == len(chosen)
        for batch, other in zip(batches, collated(chosen), strict=True):
            torch.testing.assert_close(batch.x, other.x)
            torch.testing.assert_close(batch.edge_index, other.edge_index)
            torch.testing.assert_close(batch.batch, other.batch)


def copy_parameters(dense: Any, tgp: Any) -> None:
    """Give torch-geometric-pool's model the parameters of PyG's."""
    with torch.no_grad():
        for theirs, own in zip([*dense.embed, *dense.pool], [*tgp.embed, *tgp.pool], strict=True):
            for conv, other in zip(theirs.convs, own.convs, strict=True):
                if hasattr(other, "lin_l"):
                    other.lin_l.weight.copy_(conv.lin_rel.weight)
                    other.lin_l.bias.copy_(conv.lin_root.bias)
                    other.lin_r.weight.copy_(conv.lin_root.weight)
                else:
                    other.load_state_dict(conv.state_dict())
        for theirs, pooler in zip(dense.pool, tgp.poolers, strict=True):
            pooler.selector.mlp.lins[0].load_state_dict(theirs.linear.state_dict())
        tgp.head.load_state_dict(dense.head.state_dict())


@needs_tgp
@pytest.mark.parametrize("batched", [True, False])
def test_torch_geometric_pool_gives_the_logits_of_pyg(setting: Any, batched: bool) -> None:
    dense = pyg_dense.PygDiffPool(*setting.shape).eval()
    tgp = tgp_pool.TgpDiffPool(*setting.shape, batched=batched).eval()
    copy_parameters(dense, tgp)
    batch = next(iter(competitors.collated(setting)(np.arange(4)[None])))
    torch.testing.assert_close(tgp(batch)[0], dense(batch)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "peer",
    [
        pytest.param(name, marks=needs_tgp if "tgp" in name else ())
        for name in competitors.PEERS
        if name != "pyg-compile"
    ],
)
def test_a_peer_learns(setting: Any, peer: str) -> None:
    made = competitors.PEERS[peer](setting)
    before = [p.detach().clone() for p in made.model.parameters()]
    made.steps(np.arange(20)[None, None])
    moved = [bool((p != q).any()) for p, q in zip(made.model.parameters(), before, strict=True)]
    assert sum(moved) > 0.9 * len(moved)
    assert 0 <= made.evaluate(np.arange(20)[None, None]) <= 20


def test_one_peer_uses_full_precision_without_changing_it_for_the_others(setting: Any) -> None:
    torch.set_float32_matmul_precision("high")
    try:
        made, seen = competitors.PEERS["pyg-float32"](setting), []
        made.model.register_forward_hook(
            lambda *_: seen.append(torch.get_float32_matmul_precision())
        )
        made.steps(np.arange(20)[None, None])
        assert seen == ["highest"]
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_the_compiled_peer_allows_dynamic_sizes(
    setting: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = []

    def compile(function: Any, **options: Any) -> Any:
        compiled.append(options)
        return function

    monkeypatch.setattr(torch, "compile", compile)
    made = competitors.PEERS["pyg-compile"](setting)
    made.steps(np.arange(20)[None, None])
    assert compiled == [{"dynamic": True}]


def check_row(row: dict[str, Any], names: tuple[str, ...]) -> None:
    for name in names:
        assert row[name] > 0
        models = row["models"] if name == "cohort" else 1
        per_step = 20 * models / row[f"{name}_ms"] * 1e3  # from the median turn, not the mean
        assert row[name] == pytest.approx(per_step, rel=3)
        assert 2 <= row[f"{name}_steps"] <= row["steps"]


def test_training_reports_rates_and_ratios(setting: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cross_validation, "TURNS", 2)
    monkeypatch.setattr(tgp_pool, "find_spec", lambda name: None)
    monkeypatch.setattr(torch, "compile", lambda *_, **__: 1 / 0)
    left = {"pyg-loader": 50.0}
    row = cross_validation.training(setting, steps=3, models=2, seconds=0.1, left=left)
    check_row(row, ("cohort", "single", "pyg", "pyg-loader"))
    assert row["pyg-compile"] == {"failed": "ZeroDivisionError: division by zero"}
    assert row["tgp"] == row["tgp-unbatched"] == {"failed": "tgp is not installed"}
    assert row["ratio"] == round(row["cohort"] / row["pyg"], 1)
    assert row["ratio_single"] == round(row["single"] / row["pyg"], 1)
    assert row["clusters"] == [6, 2]
    assert 0 < left["pyg-loader"] < 50


def test_training_without_peers_has_no_ratio(setting: Any) -> None:
    row = cross_validation.training(setting, steps=2, models=2, peers=[], seconds=0.1)
    assert row["cohort"] > 0
    assert row["ratio"] is None
    assert "pyg" not in row


def test_inference_is_measured_by_batch_size(setting: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cross_validation, "EVALUATED", {5: 3, 20: 2, 100: 2})
    rows = cross_validation.inference(setting, seconds=0.1)
    assert list(rows) == ["5", "20", "24"]  # there are only 24 graphs
    for row in rows.values():
        assert row["ours"] > 0
        assert row["ratio"] == round(row["ours"] / row["pyg"], 1)


def test_our_steps_train_on_the_graphs_of_each_model(setting: Any) -> None:
    ours = competitors.Ours(setting, models=2)
    seen: list[np.ndarray] = []
    batch = ours.cohort.batches.batch

    def watched(chosen: np.ndarray) -> Any:
        seen.append(chosen)
        return batch(chosen)

    ours.cohort.batches.batch = watched
    chosen = contest.draw(np.random.default_rng(0), 24, (3, 2, 20), 1)[0]
    ours.steps(chosen)
    np.testing.assert_array_equal(np.stack(seen), chosen)


def test_random_graphs_have_an_average_degree_near_four() -> None:
    dataset = scaling.random_graphs(1000, graphs=3)
    assert dataset.graphs.layout.sizes.tolist() == [1000] * 3
    assert 3.9 < float(dataset.graphs.degree.mean()) <= 4
    again = scaling.random_graphs(1000, graphs=3)
    torch.testing.assert_close(dataset.graphs.adj.indices, again.graphs.adj.indices)


def test_the_cost_is_measured_by_graph_size_and_number_of_models(setting: Any) -> None:
    row = scaling.size_row(12, "cpu", steps=2, seconds=0.1)
    assert row["nodes"] == 12
    assert row["ratio"] == round(row["pyg"]["ms"] / row["ours"]["ms"], 1)
    row = scaling.model_row(setting.dataset, 3, "cpu", steps=2, seconds=0.1)
    assert row["models"] == 3
    assert row["rate"] == pytest.approx(3 * 20 / row["ms"] * 1e3, rel=3)


def run_main(module: Any, monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    name = module.__name__.split(".")[-1]
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *words])
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    module.main()


def test_a_run_writes_a_record_for_each_data_set(
    setting: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cross_validation, "load_dataset", lambda name, folder: setting.dataset)
    monkeypatch.setattr(cross_validation, "TURNS", 1)
    words = ["--data-dir", "data", "--datasets", "A,B", "--peers", "pyg", "--steps", "2"]
    words += ["--models", "2", "--seconds", "0.05", "--device", "cpu", "--records", str(tmp_path)]
    run_main(cross_validation, monkeypatch, *words, "--parts", "training")
    lines = (tmp_path / "cross_validation_cpu.jsonl").read_text().splitlines()
    for name, line in zip("AB", lines, strict=True):
        record = json.loads(line)
        assert list(record["rows"]) == [name]
        assert record["ratio"] == {name: record["rows"][name]["ratio"]}
        assert "inference" not in record["rows"][name]
        assert str(tmp_path) not in record["command"]


def test_scaling_writes_a_record(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(scaling, "TURNS", 1)
    words = ["--parts", "sizes", "--sizes", "8,12", "--steps", "2", "--seconds", "0.05"]
    run_main(scaling, monkeypatch, *words, "--device", "cpu", "--records", str(tmp_path))
    record = json.loads((tmp_path / "scaling_cpu.jsonl").read_text())
    assert [row["nodes"] for row in record["sizes"]] == [8, 12]
    assert "models" not in record


def test_an_unknown_peer_is_an_error_that_names_the_known_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(SystemExit, match=r"expected peers among pyg, .* got 'pgy'"):
        run_main(cross_validation, monkeypatch, "--data-dir", "data", "--peers", "pyg,pgy")
