"""The examples run, and the benchmarks check their results."""

import importlib.util
from pathlib import Path

import pytest

from benchmarks import large_graph
from diffpool.data import embedded

ROOT = Path(__file__).parent.parent


def example(name):
    path = ROOT / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_custom_pooler_can_be_used():
    """It uses random numbers and is trained in a cohort."""
    losses = example("own_pooler").main(num_graphs=40, epochs=1)
    assert len(losses) == 3
    assert all(0 < loss < 10 for loss in losses)


def test_nodes_are_classified_by_distant_nodes_of_their_community():
    pooled, flat = example("node_classes").main(num_graphs=300, epochs=8)
    assert pooled > flat + 0.1


@pytest.mark.parametrize("name", ["pyg_loop", "captured_loop", "gatv2"])
def test_a_model_of_pyg_with_pooling_learns(name):
    pytest.importorskip("torch_geometric")
    assert example(name).main(num_graphs=100, epochs=5) > 0.6  # three classes


def test_a_u_net_of_pyg_sees_more_than_the_neighborhood_of_a_node():
    pytest.importorskip("torch_geometric")
    assert example("unet_nodes").main(num_graphs=200, epochs=10) > 0.6  # two classes


def test_a_module_of_lightning_trains_and_logs_both_losses():
    pytest.importorskip("torch_geometric")
    pytest.importorskip("lightning")
    logged = example("lightning_module").main(num_graphs=100, epochs=5, progress=False)
    assert {"class", "link", "entropy"} <= logged.keys()
    assert logged["accuracy"] > 0.6  # three classes


def test_networkx_graphs_with_and_without_communities_are_distinguished():
    assert example("networkx_graphs").main() >= 0.8


def test_molecules_are_classified_by_their_smiles():
    pytest.importorskip("rdkit")
    assert example("molecules").main(epochs=15) >= 0.8


def test_the_example_data_is_what_its_script_writes(tmp_path):
    pytest.importorskip("rdkit")
    example("data/make").main(tmp_path)
    for path in tmp_path.iterdir():
        assert path.read_text() == (ROOT / "examples" / "data" / path.name).read_text(), path.name


def test_the_large_graph_benchmark_computes_the_right_result():
    large_graph.check()


@pytest.mark.parametrize("mode", large_graph.MODES)
def test_the_large_graph_benchmark_trains_and_predicts_on_a_smaller_graph(mode):
    row = large_graph.measure(3000, mode, repeats=3)  # checks that the loss falls
    assert 11_000 < row["edges"] <= 12_000
    assert row["peak_gib"] >= row["start_gib"] > 0


def test_the_peer_of_the_speed_benchmark_computes_the_same():
    pytest.importorskip("torch_geometric")
    from benchmarks import cpu_step

    row = cpu_step.measure(embedded(30), steps=5)
    assert row["ratio"] > 0
    assert row["clusters"] == [24, 6]
