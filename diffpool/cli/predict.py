"""`diffpool predict`: the predictions of a trained model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, TextIO, cast

import typer

from diffpool.cli.completion import complete_dataset
from diffpool.cli.display import (
    console,
    counted,
    errors,
    graphs_bar,
    print_json,
    print_scores,
    progress_console,
)
from diffpool.cli.inputs import check_columns, first, graph_parts
from diffpool.cli.options import (
    DataDir,
    Device,
    DeviceName,
    EdgeAttributes,
    Json,
    Label,
    ModelDir,
    NodeAttributes,
    Quiet,
    SkipInvalid,
    Smiles,
    Source,
    Target,
)
from diffpool.errors import SettingError
from diffpool.files import write_json
from diffpool.text import PrintableFile

FORMS = ("csv", "jsonl")  # of predictions


def predict(
    model_dir: ModelDir,
    dataset: Annotated[
        str,
        typer.Argument(
            help="A path, or the name of a TU data set.", autocompletion=complete_dataset
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="Output file: CSV, or JSON lines if the name ends in .jsonl; use `-` for standard output."
        ),
    ] = Path("predictions.csv"),
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="Output format: `csv` or `jsonl`.",
            metavar="NAME",
            show_default="from the name of OUT",
            autocompletion=lambda: list(FORMS),
        ),
    ] = None,
    device: DeviceName = "auto",
    data_dir: DataDir = None,
    smiles: Smiles = None,
    label: Label = None,
    target: Target = None,
    node_attributes: NodeAttributes = None,
    edge_attributes: EdgeAttributes = None,
    skip_invalid: SkipInvalid = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Predict the class or the targets of every graph with a trained model.

    OUT has one line per graph: the columns of the input (all columns of a CSV file; `id`, `label` and other keys of
    JSON lines), the prediction, and the probability of each class. JSON lines and CSV files are read in parts, so they
    may be larger than memory. Labels that were not in the training data are reported. If the graphs have classes or
    targets (for a CSV file, name the column with --label or --target), the scores are printed and written to
    NAME.scores.json next to OUT.

    **Examples**

    - `diffpool predict runs/model graphs.jsonl --out predictions.csv`

    - `diffpool predict runs/model molecules.csv --label active --out predictions.jsonl`

    - `diffpool predict runs/model graphs.jsonl --out - | head`
    """
    from diffpool.data.sources import is_path
    from diffpool.training import load_model, unseen_message, write_predictions

    to_stdout = str(out) == "-"
    shown = progress_console(quiet, stderr=to_stdout or as_json)
    _check_predictions_file(out, form)
    form = form or ("jsonl" if out.suffix == ".jsonl" else "csv")
    check_columns(label, target)
    model = load_model(model_dir, Device(device, "float32").select())
    if is_path(dataset) and _is_input(out, Path(dataset)):
        raise SettingError(
            f"expected --out to be a new file, but {out} is the input: choose another name"
        )
    source = Source(
        data_dir,
        smiles,
        node_attributes=node_attributes,
        edge_attributes=edge_attributes,
        skip_invalid=skip_invalid,
    )
    total, parts = graph_parts(dataset, source, model.names, label, target, quiet)
    with graphs_bar("predicting", total, shown) as advance:
        written = write_predictions(model, parts, _stdout() if to_stdout else out, advance, form)
    if not to_stdout:
        _write_scores(out.with_name(f"{out.stem}.scores.json"), written.metrics)
    if as_json:
        facts = {"predictions": written.count, "out": str(out), "unseen": written.unseen}
        facts["skipped"] = len(written.skipped)
        if written.not_scored:
            facts["not_scored"] = written.not_scored
        print_json({**facts, "scores": written.metrics}, sys.stderr if to_stdout else sys.stdout)
        return
    messages = errors if to_stdout else console
    for table, found in written.unseen.items():
        messages.print(unseen_message(table, found), markup=False)
    for message in written.not_scored:
        messages.print(message, markup=False, soft_wrap=True)
    if written.metrics is not None:
        print_scores(messages, written.metrics)
    destination = "standard output" if to_stdout else out
    messages.print(f"{counted(written.count, 'prediction')} written to {destination}")
    if written.skipped:
        messages.print(
            f"no prediction for {counted(len(written.skipped), 'row')}, because RDKit cannot read the molecule: "
            f"{first(written.skipped)}"
        )


def _check_predictions_file(out: Path, form: str | None) -> None:
    if form is not None and form not in FORMS:
        raise SettingError(f"expected --format to be {' or '.join(FORMS)}, got {form!r}")
    if str(out) == "-":
        return
    if out.is_dir():
        raise SettingError(
            f"expected --out to be a file, got the folder {out}: add a name, such as {out / 'predictions.csv'}"
        )
    if not out.resolve().parent.is_dir():
        raise SettingError(
            f"expected --out to be a file in a folder that exists, got {out}: create the folder first"
        )
    regular = out.is_file() or not out.exists()  # a device has its own message
    if form is None and regular and out.suffix not in (".csv", ".jsonl", ".txt"):
        raise SettingError(
            f"expected --out to end in .csv, .jsonl or .txt, got {out}: rename it, or choose --format csv or "
            "--format jsonl"
        )


def _is_input(out: Path, dataset: Path) -> bool:
    """Whether this is the file with the graphs, or one of the files in their folder."""
    from diffpool.data.graph_files import find_graph_files

    if not out.exists() or not dataset.exists():
        return False
    files = find_graph_files(dataset) if dataset.is_dir() else [dataset]
    return any(out.samefile(file) for file in files)


def _stdout() -> TextIO:
    return cast("TextIO", PrintableFile(sys.stdout)) if sys.stdout.isatty() else sys.stdout


def _write_scores(path: Path, metrics: dict[str, Any] | None) -> None:
    """Write the scores next to the predictions; without any, remove those of earlier predictions."""
    if metrics is None:
        path.unlink(missing_ok=True)
        return
    write_json(path, metrics)
