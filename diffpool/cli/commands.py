"""The commands of `diffpool`: each has its own file and a line here.

Modules that import NumPy or torch are imported inside the functions that need them, so that help, completion and error
messages appear at once.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from diffpool.cli.analyze import analyze
from diffpool.cli.data import data
from diffpool.cli.demo import demo
from diffpool.cli.display import console
from diffpool.cli.evaluate import ALL_PROTOCOLS, evaluate
from diffpool.cli.exits import INTERRUPTED, check_completion, one_line_errors
from diffpool.cli.explain import METHODS as EXPLANATION_METHODS
from diffpool.cli.explain import explain
from diffpool.cli.explore import explore
from diffpool.cli.options import Command, listing
from diffpool.cli.plot import app as plot_app
from diffpool.cli.predict import predict
from diffpool.cli.reproduce import TARGETS, reproduce
from diffpool.cli.torchrun import check_command
from diffpool.cli.train import train
from diffpool.cli.tune import tune
from diffpool.experiments.methods import KERNEL_METHODS, METHODS
from diffpool.experiments.protocol_names import REFITS, SAMPLERS
from diffpool.version import VERSION

app = typer.Typer(
    invoke_without_command=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        console.print(f"diffpool {VERSION}")
        raise typer.Exit


@app.callback()
def top(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Hierarchical graph classification with differentiable pooling.

    Start with `diffpool demo`: it generates a data set, trains DiffPool and a flat network on it and compares them.
    """
    if context.invoked_subcommand is None:
        console.print(context.get_help())


METHOD_LIST = listing(Methods=METHODS)
EVALUATE_LISTS = listing(
    Protocols=ALL_PROTOCOLS, Methods=METHODS, Methods_with_a_kernel_and_an_SVM=KERNEL_METHODS
)
TUNE_LISTS = listing(Points=SAMPLERS, Refit=REFITS, Methods=METHODS)

# One line for each command, in the order of the help.
app.command()(demo)
app.command(cls=Command, epilog=METHOD_LIST)(train)
app.command(cls=Command, epilog=EVALUATE_LISTS)(evaluate)
app.command(cls=Command, epilog=TUNE_LISTS)(tune)
app.command()(data)
app.command()(predict)
app.command()(analyze)
app.command()(explore)
app.command(epilog=listing(Methods=EXPLANATION_METHODS))(explain)
app.command(cls=Command, epilog=listing(Tables=TARGETS))(reproduce)
app.add_typer(plot_app, name="plot")


def main() -> None:
    """Run the command line. A user error prints one line and exits with code 2."""
    check_completion(sys.argv)
    with one_line_errors():
        check_command(sys.argv[1:])
        code = app(standalone_mode=False)
        if code == INTERRUPTED:  # Typer's code for Ctrl-C
            raise KeyboardInterrupt
    sys.exit(code)
