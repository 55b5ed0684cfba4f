"""README and docs are correct: their code runs, their links exist, their tables match the records."""

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import networkx as nx
import pytest
import torch
from typer.testing import CliRunner

import diffpool.cli.inputs
from benchmarks import tables, tgp_pool
from benchmarks.tables import filled
from diffpool import DiffPooling, SparseGraphs
from diffpool.cli.commands import app
from diffpool.data import embedded
from diffpool.errors import DiffPoolError

ROOT = Path(__file__).parent.parent
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "benchmarks" / "README.md",
    ROOT / "examples" / "data" / "README.md",
]


def blocks(language: str) -> list[tuple[str, str]]:
    pattern = rf"```{language}\n(.*?)```"
    return [
        (f"{page.name}-{i}", code)
        for page in PAGES
        for i, code in enumerate(re.findall(pattern, page.read_text(), re.DOTALL))
    ]


@pytest.mark.parametrize("code", [pytest.param(code, id=name) for name, code in blocks("python")])
def test_python_in_the_docs_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs", "exec"), {"__name__": "docs"})


def test_the_page_on_logging_sends_every_epoch_to_weights_and_biases(monkeypatch):
    """With a stand-in for wandb, which has the two functions that the page calls."""
    run = MagicMock()
    init = MagicMock(return_value=run)
    run.__enter__.return_value = run
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    ((_, code),) = [block for block in blocks("py") if "wandb" in block[1]]
    exec(compile(code, "docs", "exec"), {"__name__": "docs"})
    assert init.call_args.kwargs["config"]["epochs"] == 5
    calls = run.log.call_args_list
    assert [call.kwargs["step"] for call in calls] == [1, 2, 3, 4, 5]
    assert all(call.args[0]["validation_loss"] > 0 for call in calls)


def model_of(block: str, language: str = "python"):
    """The class in a code block of the page for those who come from another library."""
    page = (ROOT / "docs" / "migration.md").read_text()
    codes = [c for c in re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL) if block in c]
    (code,) = codes
    names = {"__name__": "docs"}
    exec(compile(code, "docs", "exec"), names)
    (model,) = (v for k, v in names.items() if k.endswith("Model"))
    torch.manual_seed(0)
    return model(3, 8, 4, 2).eval()


def padded_state(pyg):
    """The parameters of the model of PyG, for the model on padded matrices."""
    a, b = pyg.conv1, pyg.conv2
    return {
        "conv1.weight": torch.cat([a.lin_r.weight, a.lin_l.weight], 1),
        "conv1.bias": a.lin_l.bias,
        "conv2.weight": torch.cat([b.lin_root.weight, b.lin_rel.weight], 1),
        "conv2.bias": b.lin_root.bias,
        **{
            f"{name}.{k}": v
            for name in ("assign", "head")
            for k, v in getattr(pyg, name).state_dict().items()
        },
    }


def dense_batch():
    """Graphs without a node of degree 0, so that every cluster has edges."""
    rings = [nx.complete_graph(n) for n in (5, 7, 6)]
    x = torch.randn(18, 3, generator=torch.Generator().manual_seed(0))
    return SparseGraphs.from_networkx(rings).to_pyg(x)


@torch.no_grad()
def test_the_four_models_of_the_page_on_migration_are_the_same():
    utils = pytest.importorskip("torch_geometric.utils")
    pyg, ours, padded = map(model_of, ("class PygModel", "class Model", "class PaddedModel"))
    state = pyg.state_dict()
    ours.load_state_dict({k.replace("assign", "pool.assign"): v for k, v in state.items()})
    padded.load_state_dict(padded_state(pyg))
    batch = dense_batch()
    logits, loss = pyg(batch)
    for found, expected in zip(ours(batch), (logits, loss), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    x, mask = utils.to_dense_batch(batch.x, batch.batch)
    adj = utils.to_dense_adj(batch.edge_index, batch.batch)
    torch.testing.assert_close(padded(x, adj, mask), logits, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_the_model_of_torch_geometric_pool_on_the_page_is_the_same():
    pytest.importorskip("torch_geometric")
    pytest.importorskip("tgp")
    tgp_pool.poolers()
    pyg, theirs = model_of("class PygModel"), model_of("class TgpModel", "py")
    (linear,) = (
        m for m in theirs.pool.modules() if hasattr(m, "in_channels") and hasattr(m, "weight")
    )
    state = {k: v for k, v in pyg.state_dict().items() if not k.startswith("assign")}
    theirs.load_state_dict(state, strict=False)
    linear.load_state_dict(pyg.assign.state_dict())
    batch = dense_batch()
    logits, loss = theirs(batch)
    torch.testing.assert_close(logits, pyg(batch)[0], rtol=1e-5, atol=1e-5)
    pool = DiffPooling(assign=pyg.assign, losses="pyg", normalize=False)
    h = pyg.conv1(batch.x, batch.edge_index).relu()
    out = pool(h, batch.edge_index, batch.batch)
    entropy = out.losses["entropy"] * 3 * 7 / 18  # padding counts as nodes in PyG
    torch.testing.assert_close(loss, out.losses["link"] + entropy, rtol=1e-5, atol=1e-5)


def commands_in(text: str) -> list[list[str]]:
    lines = re.findall(r"^diffpool (.*)$", text, re.MULTILINE)
    return [line.split("#")[0].split() for line in lines]


COMMANDS = [
    words for name, code in blocks("sh") if "README" not in name for words in commands_in(code)
]
WITHOUT_DATA = (["demo"], ["train"], ["reproduce", "table1"])


MACHINES = {"--devices": "--devices", "--cluster": "Ray"}  # what errors about them name


@pytest.fixture
def no_data(tmp_path, monkeypatch):
    """An empty working directory, without data sets and without a server to download them from."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DIFFPOOL_CACHE", str(tmp_path))
    monkeypatch.setenv("DIFFPOOL_URL", "http://127.0.0.1:9")  # nothing listens on this port
    monkeypatch.delenv("DIFFPOOL_DATA", raising=False)


@pytest.mark.usefixtures("no_data")
@pytest.mark.parametrize("words", [w for w in COMMANDS if w not in WITHOUT_DATA], ids=" ".join)
def test_commands_in_the_docs_are_valid(words, monkeypatch):
    """They fail with an error about the missing file, data set, GPU or cluster that they name."""
    monkeypatch.setattr("diffpool.experiments.ray_cluster.CONNECT_SECONDS", 0.1)
    result = CliRunner().invoke(app, words)
    known = {"ENZYMES", "graphs.jsonl", "./graphs", "runs/mine", "runs/enzymes", "molecules.csv"}
    named = {word.removeprefix("./") for word in known & set(words)}
    named |= {word for word in words if word.startswith(("results/", "benchmarks/"))}
    named |= {what for option, what in MACHINES.items() if option in words}
    assert isinstance(result.exception, DiffPoolError)
    assert any(name in str(result.exception) for name in named)


@pytest.mark.usefixtures("no_data")
def test_the_commands_in_the_docs_that_need_no_data_succeed(monkeypatch):
    assert all(words in COMMANDS for words in WITHOUT_DATA)
    monkeypatch.setattr(diffpool.cli.inputs, "embedded", lambda seed: embedded(40, seed=seed))
    small = ["--graphs", "40", "--epochs", "1"]
    assert CliRunner().invoke(app, ["demo", *small]).exit_code == 0
    assert CliRunner().invoke(app, ["train", "--epochs", "1"]).exit_code == 0
    assert CliRunner().invoke(app, ["reproduce", "table1"]).exit_code == 0


def test_the_commands_of_the_readme_run_as_printed(tmp_path, monkeypatch):
    """On the files in examples/data; only the search of `tune` is shorter."""
    pytest.importorskip("rdkit")
    monkeypatch.chdir(tmp_path)
    Path("examples").symlink_to(ROOT / "examples")
    train, predict, tune = commands_in((ROOT / "README.md").read_text())
    for words in (train, predict, [*tune, "--max-time", "2", "--epochs", "4"]):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
    assert json.loads(Path("runs/offices/report.json").read_text())["test"]["accuracy"] > 0.9
    assert Path("runs/offices/clusters.png").exists()
    assert json.loads(Path("predictions.scores.json").read_text())["accuracy"] > 0.9
    assert Path("runs/molecules/trials.csv").exists()


def test_the_tutorial_on_molecules_does_what_it_says(tmp_path, monkeypatch):
    """Its data, its commands in their order, and the output that it shows."""
    pytest.importorskip("rdkit")
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "molecules.md").read_text()
    first, *_ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(first, "docs", "exec"), {"__name__": "docs"})
    outputs = {}
    for words in commands_in(page):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
        outputs[words[0]] = result.output
    shown = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    assert "2  (0: 225, 1: 25)" in outputs["data"]
    assert shown[1].splitlines()[0] in outputs["train"]
    assert re.search(r"^test accuracy .* on 25 graphs$", outputs["train"], re.MULTILINE)
    assert json.loads(Path("runs/mine/report.json").read_text())["test"]["balanced_accuracy"] > 0.9
    assert "| train | 180 | 20 |" in Path("runs/mine/report.md").read_text()
    rows = [line.split(",") for line in Path("predictions.csv").read_text().splitlines()]
    assert rows[0][5:] == ["p_0", "p_1"]
    assert [",".join(row[:5]) for row in rows] == shown[2].splitlines()
    scored = [json.loads(line) for line in Path("scored.jsonl").read_text().splitlines()]
    assert [line["id"] for line in scored] == [f"M{i:03}" for i in range(1, 251)]
    right = sum(line["acid"] == line["prediction"] for line in scored)
    assert json.loads(Path("scored.scores.json").read_text())["accuracy"] == right / 250 > 0.95


def test_the_docs_show_python_and_commands():
    assert len(blocks("python")) >= 4
    assert len(COMMANDS) >= 3


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_exist(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("index", ["mkdocs.yml", "docs/index.md"])
def test_every_page_is_listed(index):
    text = (ROOT / index).read_text()
    for page in (ROOT / "docs").glob("*.md"):
        assert page.name == "index.md" or re.search(rf"[ (]{page.name}\b", text), page.name


@pytest.mark.parametrize("page", tables.PAGES, ids=str)
def test_tables_match_the_latest_records(page):
    text = page.read_text()
    assert "<!-- generated:" in text
    assert filled(text) == text


@pytest.mark.parametrize("page", tables.PAGES, ids=str)
def test_no_generated_number_starts_a_line_because_a_comment_there_ends_the_paragraph(page):
    assert not re.findall(r"^<!-- generated:.*<!-- end -->", page.read_text(), re.MULTILINE)


def test_the_code_shown_as_it_is_now_is_the_code_of_the_package():
    def lines(text):
        return "\n".join(line.strip() for line in text.splitlines() if not line.startswith("#"))

    package = "\n".join(lines(path.read_text()) for path in (ROOT / "diffpool").rglob("*.py"))
    page = (ROOT / "docs" / "architecture.md").read_text()
    shown = [code for code in re.findall(r"```py\n(.*?)```", page, re.DOTALL) if ", now\n" in code]
    assert len(shown) == 3
    for code in shown:
        for part in code.split("\n\n\n"):
            assert lines(part).strip() in package


def test_paper_to_code_names_things_that_exist():
    import diffpool.architecture as architecture
    import diffpool.builder as builder
    import diffpool.equations as equations
    from diffpool import nn, training

    modules = {
        "architecture": architecture,
        "builder": builder,
        "equations": equations,
        "nn": nn,
        "training": training,
    }
    page = (ROOT / "docs" / "paper-to-code.md").read_text()
    names = re.findall(r"`(architecture|builder|equations|nn|training)\.(\w+)`", page)
    assert len(names) >= 9
    for module, name in names:
        assert hasattr(modules[module], name), f"{module}.{name}"
    for file in re.findall(r"`(tests/[\w/]+\.py)`", page):
        assert (ROOT / file).exists(), file
