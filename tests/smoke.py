"""Checks an installed package, with the required dependencies only: `python tests/smoke.py`.

It trains, saves, loads and predicts, in any working directory and in less than a minute. `--kernels` also checks that
the C kernels were built, `--no-kernels` that they were not.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import tempfile
from importlib import metadata
from pathlib import Path

import numpy as np
import scipy.sparse

import diffpool
from diffpool import Architecture, DiffPoolClassifier, Training, build, embedded, load_model, train
from diffpool.backends import enabled_backends
from diffpool.cli.commands import app
from diffpool.data import single_split
from diffpool.version import VERSION


def check_files() -> None:
    """The version of the installed package, and the mark for type checkers."""
    assert metadata.version("diffpool") == diffpool.__version__ == VERSION
    assert (Path(diffpool.__file__).parent / "py.typed").exists()


def check_kernels(wanted: bool) -> None:
    found = "cpu" in enabled_backends()
    assert found == wanted, f"the C kernels were {'' if found else 'not '}built"


def check_training() -> None:
    """The loss on generated data falls."""
    dataset = embedded(num_graphs=100)
    sizes = dataset.num_features, dataset.num_classes, dataset.largest
    model = build(Architecture(poolings=2), *sizes)
    rows = list(train(model, dataset, single_split(dataset.y, seed=0), Training(epochs=5)))
    assert len(rows) == 5
    assert rows[-1].train_loss < rows[0].train_loss


def ring(nodes: int) -> scipy.sparse.csr_array:
    """Each node is linked to the next one: [n, n]."""
    links = np.arange(nodes), (np.arange(nodes) + 1) % nodes
    matrix = scipy.sparse.coo_array((np.ones(nodes), links), shape=(nodes, nodes)).tocsr()
    return matrix + matrix.T


def star(nodes: int) -> scipy.sparse.csr_array:
    """Every other node is linked to node 0: [n, n]."""
    links = np.zeros(nodes - 1, dtype=np.int64), np.arange(1, nodes)
    matrix = scipy.sparse.coo_array((np.ones(nodes - 1), links), shape=(nodes, nodes)).tocsr()
    return matrix + matrix.T


def check_estimator(folder: Path) -> None:
    """It tells rings from stars, and so does the saved model, in Python and on the command line."""
    graphs = [ring(n) for n in range(5, 25)] + [star(n) for n in range(5, 25)]
    y = ["ring"] * 20 + ["star"] * 20
    model = DiffPoolClassifier(epochs=20, min_clusters=4, link_weight=0.1, seed=0).fit(graphs, y)
    assert model.score(graphs, y) == 1
    model.save(folder / "model")
    loaded = load_model(folder / "model")
    np.testing.assert_array_equal(loaded.predict_proba(graphs), model.predict_proba(graphs))
    lines = folder / "new.jsonl"
    lines.write_text('{"nodes": 5, "edges": [[0, 1], [1, 2], [2, 3], [3, 4], [4, 0]]}\n')
    run("predict", folder / "model", lines, "--out", folder / "predictions.csv")
    assert "ring" in (folder / "predictions.csv").read_text()


def check_demo(folder: Path) -> None:
    output = run("demo", "--graphs", 40, "--epochs", 1, "--out", folder / "demo")
    assert "flat GraphSAGE" in output
    drawn = (folder / "demo" / "diffpool" / "clusters.png").exists()
    assert drawn != ("no picture: " in output)


def run(*words: object) -> str:
    """The output of a command of `diffpool`."""
    with contextlib.redirect_stdout(io.StringIO()) as output:
        app([str(word) for word in words], standalone_mode=False)
    return output.getvalue()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kernels", action=argparse.BooleanOptionalAction)
    wanted = options.parse_args().kernels
    check_files()
    if wanted is not None:
        check_kernels(wanted)
    check_training()
    with tempfile.TemporaryDirectory() as folder:
        check_estimator(Path(folder))
        check_demo(Path(folder))
    backends = ", ".join(enabled_backends()) or "none"
    print(f"diffpool {VERSION} in {Path(diffpool.__file__).parent} works (backends: {backends})")


if __name__ == "__main__":
    main()
