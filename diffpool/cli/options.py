"""Command-line options: those that several commands share, and one for each setting."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer
from typer.core import TyperCommand

from diffpool.cli.completion import (
    complete_dataset,
    complete_features,
    complete_grid,
    complete_settings,
)
from diffpool.data.feature_names import NODE_PARTS
from diffpool.errors import SettingError, did_you_mean
from diffpool.experiments.grid import parse_settings
from diffpool.experiments.methods import METHOD_SETTINGS, default_text
from diffpool.settings import Setting

if TYPE_CHECKING:
    from rich.console import Console

    from diffpool.experiments.processes import ProcessPerDevice
    from diffpool.experiments.ray_cluster import RayCluster

# Titles of the option groups, in the order of the help; None is the group that comes first.
DATA, KERNELS, ADVANCED = "Data", "Kernels", "Advanced"
GROUPS = (None, "Training", "Architecture", DATA, KERNELS, ADVANCED)

ALL_OPTIONS = "diffpool.all-options"  # key in the context's meta: help shows the advanced options

PRECISIONS = {"tf32": "high", "float32": "highest"}  # and PyTorch's names for them
METAVARS = {
    (bool,): "BOOL",
    (str,): "NAME",
    (tuple[str, ...],): "LIST",
    (tuple[int, ...],): "LIST",
}

DataDir = Annotated[
    Path | None,
    typer.Option(
        help="Folder that contains NAME.zip or NAME/ for the data set NAME.",
        envvar="DIFFPOOL_DATA",
        rich_help_panel=DATA,
    ),
]
Smiles = Annotated[
    str | None,
    typer.Option(
        help="Name of the column with SMILES, for CSV and Parquet files.",
        metavar="COLUMN",
        show_default="smiles",
        rich_help_panel=DATA,
    ),
]
Label = Annotated[
    str | None,
    typer.Option(
        help="Name of the column with the class, for CSV and Parquet files.",
        metavar="COLUMN",
        rich_help_panel=DATA,
    ),
]
Target = Annotated[
    str | None,
    typer.Option(
        help="Name of the column with the number to predict, for CSV and Parquet files.",
        metavar="COLUMN",
        rich_help_panel=DATA,
    ),
]
NodeAttributes = Annotated[
    str | None,
    typer.Option(
        help="Node attributes to use from GML, GraphML and GEXF files, separated by commas; `''` for none.",
        metavar="NAME,NAME",
        show_default="all",
        rich_help_panel=DATA,
    ),
]
EdgeAttributes = Annotated[
    str | None,
    typer.Option(
        help="Edge attributes to use from these files, separated by commas; `''` for none.",
        metavar="NAME,NAME",
        show_default="all",
        rich_help_panel=DATA,
    ),
]
SkipInvalid = Annotated[
    bool,
    typer.Option(
        "--skip-invalid",
        help="Leave out molecules that RDKit cannot read.",
        rich_help_panel=DATA,
    ),
]
Seed = Annotated[int, typer.Option(help=METHOD_SETTINGS["seed"].help)]
DeviceName = Annotated[
    str,
    typer.Option(
        help="`cpu`, `cuda`, `cuda:1`, or `auto`, which uses CUDA if available.", metavar="NAME"
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as a JSON object.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print only the result and errors, no progress.")
]


@dataclass(frozen=True)
class Source:
    """Where the graphs of a data set are read from."""

    data_dir: DataDir = None
    smiles: Smiles = None
    label: Label = None
    node_attributes: NodeAttributes = None
    edge_attributes: EdgeAttributes = None
    skip_invalid: SkipInvalid = False

    def chosen_attributes(self) -> tuple[list[str] | None, list[str] | None]:
        """The names of the node and edge attributes to use; None means all of them."""
        return _names(self.node_attributes), _names(self.edge_attributes)


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


@dataclass(frozen=True)
class Inputs(Source):
    """Which features of the graphs a neural network uses."""

    features: Annotated[
        str,
        typer.Option(
            help=f"Node features, separated by commas: {', '.join(f'`{name}`' for name in NODE_PARTS)}; "
            "or `auto`, which uses attributes and labels if there are any, and otherwise degree and log-degree.",
            metavar="NAME,NAME",
            autocompletion=complete_features,
            rich_help_panel=DATA,
        ),
    ] = "auto"
    directed: Annotated[
        bool,
        typer.Option(help="Use edges in the given direction only.", rich_help_panel=DATA),
    ] = False


@dataclass(frozen=True)
class Device:
    """The device and precision used by a neural network."""

    device: DeviceName = "auto"
    precision: Annotated[
        str,
        typer.Option(
            help="Precision of matrix products on a GPU: `float32`, or `tf32`, which rounds the factors to 11 bits and "
            "is several times faster.",
            metavar="NAME",
            autocompletion=lambda: list(PRECISIONS),
            rich_help_panel=ADVANCED,
        ),
    ] = "tf32"

    def select(self) -> str:
        """Set the precision of matrix products and return the name of a device that exists."""
        from diffpool.training.devices import select_device

        self.set_precision()
        return select_device(self.device, "--device")

    def set_precision(self) -> None:
        """Set the precision of matrix products."""
        import torch

        if self.precision not in PRECISIONS:
            names = " or ".join(PRECISIONS)
            hint = did_you_mean(self.precision, PRECISIONS)
            raise SettingError(f"expected --precision to be {names}, got {self.precision!r}{hint}")
        torch.set_float32_matmul_precision(PRECISIONS[self.precision])


Devices = Annotated[
    str | None,
    typer.Option(
        help="Several devices of this machine, with a process for each: `0,1` (GPUs), `cuda:0,cuda:1` or `cpu,cpu`.",
        metavar="NAME,NAME",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        help="Train on all GPUs (or CPUs) of a Ray cluster: `ray://HOST:PORT`, `ray://auto` for the one that this "
        "machine belongs to, or `ray`, which starts one here.",
        metavar="ADDRESS",
    ),
]


@dataclass(frozen=True)
class Workers:
    """Where the cohorts of a run are trained, if not on a single device."""

    devices: Devices = None
    cluster: Cluster = None

    def select(self, device: Device) -> str:
        """The name of the device of this process, which exists: the CPU if other processes train."""
        self.check(device.device)
        if not self.words():
            return device.select()
        device.set_precision()
        return "cpu"

    @contextmanager
    def executor(
        self, device: Device, shown: Console
    ) -> Iterator[ProcessPerDevice | RayCluster | None]:
        """What trains the cohorts; None for a single device."""
        if self.devices is not None:
            from diffpool.experiments.processes import ProcessPerDevice, parse_devices

            yield ProcessPerDevice(parse_devices(self.devices))
        elif self.cluster is not None:
            from diffpool.experiments.ray_cluster import RayCluster, parse_cluster

            address = parse_cluster(self.cluster)
            at = "starting Ray" if address is None else f"joining the Ray cluster at {address}"
            shown.print(at)
            with RayCluster(address, device.device) as executor:
                yield executor
        else:
            yield None

    def words(self) -> tuple[str, ...]:
        """The options, as words of a command."""
        given = (("--devices", self.devices), ("--cluster", self.cluster))
        return tuple(
            word for option, value in given if value is not None for word in (option, value)
        )

    def check(self, device: str | None) -> None:
        """Raise an error if two options name devices."""
        if self.devices is not None and self.cluster is not None:
            raise SettingError("expected --devices or --cluster, got both: remove one of them")
        if self.devices is not None and device not in (None, "auto"):
            raise SettingError("expected --device or --devices, got both: remove one of them")


@dataclass(frozen=True)
class Run:
    """What `diffpool evaluate` records, and on which folds."""

    out: Annotated[
        Path, typer.Option(help="Results file, to which one line per finished fold is appended.")
    ] = Path("results.jsonl")
    repeats: Annotated[
        int, typer.Option(help="Repeat the cross-validation this many times with new folds.")
    ] = 1
    folds: Annotated[
        Path | None,
        typer.Option(
            help="JSON file with published folds, in the format of Errica et al. (2020).",
            show_default="folds generated from the seed",
        ),
    ] = None
    seed: Seed = 0

    def __post_init__(self) -> None:
        METHOD_SETTINGS["seed"].check(self.seed)


@dataclass(frozen=True)
class KernelOptions:
    """Options of `diffpool evaluate` that apply to kernels only."""

    jobs: Annotated[
        int | None,
        typer.Option(
            help="Number of SVMs to fit at the same time.",
            show_default="the number of cores",
            rich_help_panel=KERNELS,
        ),
    ] = None
    no_labels: Annotated[
        bool,
        typer.Option(
            "--no-labels",
            help="Ignore node labels; `wl` and `wl-oa` then use degrees instead.",
            rich_help_panel=KERNELS,
        ),
    ] = False


DatasetName = Annotated[
    str,
    typer.Argument(
        help="`embedded`, the name of a TU data set, or a path; see `diffpool train`.",
        autocompletion=complete_dataset,
    ),
]
ModelDir = Annotated[Path, typer.Argument(help="A model directory written by `diffpool train`.")]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume", help="Continue the interrupted training run in OUT, with the same settings."
    ),
]
Grid = Annotated[
    list[str] | None,
    typer.Option(
        help="For **nested**: a setting and the values to search over, such as `hidden=32,64`; may be repeated.",
        metavar="NAME=VALUE,VALUE",
        show_default="three learning rates, two weight decays",
        autocompletion=complete_grid,
    ),
]


InnerFolds = Annotated[
    int,
    typer.Option(
        help="Number of folds for validating each setting by cross-validation; 1 uses a single validation part."
    ),
]
Cohort = Annotated[
    int | None,
    typer.Option(
        help="Maximum number of models to train side by side.",
        show_default="depends on the device",
    ),
]


class Settings(dict[str, Any]):
    """The settings given on the command line, by name."""


def name_option(text: str, known: Iterable[str], default: str | bool = True) -> Any:
    """An option whose value is one of the names listed in the epilog of the command."""
    return typer.Option(
        help=f"{text}; see the list below.",
        metavar="NAME",
        show_default=default,
        autocompletion=lambda: list(known),
    )


def listing(**groups: Mapping[str, Any]) -> str:
    """The epilog of a command: names and summaries, by group. A member is a summary or has one."""
    lines = []
    for title, members in groups.items():
        lines.append(f"**{title.replace('_', ' ')}**")
        lines += [f"- `{n}`: {getattr(member, 'summary', member)}" for n, member in members.items()]
    return "\n\n".join(lines)


def _show_all_options(context: typer.Context, asked: bool) -> None:
    if asked:
        context.meta[ALL_OPTIONS] = True
        typer.echo(context.get_help())
        raise typer.Exit


HelpAll = Annotated[
    bool,
    typer.Option(
        "--help-all",
        callback=_show_all_options,
        is_eager=True,
        help="Show this message, including the advanced options.",
    ),
]


class Command(TyperCommand):
    """A command whose `--help` omits the advanced options; `--help-all` shows them."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        hidden = []
        if ALL_OPTIONS not in ctx.meta:
            hidden = [p for p in self.params if getattr(p, "rich_help_panel", None) == ADVANCED]
        for option in hidden:
            option.hidden = True  # type: ignore[attr-defined]
        try:
            super().format_help(ctx, formatter)
        finally:
            for option in hidden:  # completion offers them
                option.hidden = False  # type: ignore[attr-defined]


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Let a parameter of a command stand for several options.

    A parameter whose type is a dataclass becomes an option for each field, and a parameter of type `Settings` becomes
    an option for each setting of a neural method. Options are listed by group.
    """
    parameters: list[inspect.Parameter] = []
    bundles: dict[str, tuple[Callable[..., Any], list[str]]] = {}
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        kind: Any = parameter.annotation
        if kind is Settings:
            options = list(_setting_options())
            bundles[parameter.name] = (_given_settings, [option.name for option in options])
        elif isinstance(kind, type) and is_dataclass(kind):
            options = list(_field_options(kind))
            bundles[parameter.name] = (kind, [option.name for option in options])
        else:
            options = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)]
        parameters += options
    parameters.sort(key=_group)

    @wraps(command)
    def run(**values: Any) -> None:
        for name, (make, options) in bundles.items():
            values[name] = make(**{option: values.pop(option) for option in options})
        command(**values)

    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def _group(parameter: inspect.Parameter) -> int:
    details = get_args(parameter.annotation)[1:]  # of Annotated
    return GROUPS.index(details[0].rich_help_panel if details else None)


_option = partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY)


def _field_options(kind: Any) -> Iterator[inspect.Parameter]:
    types = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        yield _option(field.name, default=field.default, annotation=types[field.name])


def _setting_options() -> Iterator[inspect.Parameter]:
    for setting in METHOD_SETTINGS.values():
        if setting.name != "seed":  # the commands declare it themselves
            yield _option(setting.name, default=None, annotation=_annotation(setting))
    words = typer.Option(
        "--set",
        metavar="NAME=VALUE",
        show_default=False,
        help="Set any setting by name, such as `head=64,32`; may be repeated. docs/settings.md lists all settings.",
        autocompletion=complete_settings,
        rich_help_panel=ADVANCED,
    )
    yield _option("words", default=None, annotation=Annotated[list[str] | None, words])


def _annotation(setting: Setting) -> Any:
    kind, metavar, text = setting.kinds[0], None, setting.help
    if kind not in (int, float):  # read as text, which the setting parses
        kind, metavar = str, METAVARS.get(setting.kinds, "VALUE")
    if len(setting.choices) > 1 and metavar in ("NAME", "LIST"):
        text += f" {setting.type_text().capitalize()}."
    option = typer.Option(
        setting.option,
        help=f"{text} [default: {default_text(setting)}]",
        metavar=metavar,
        show_default=False,  # it depends on the method and the data set
        rich_help_panel=setting.group,
        autocompletion=(lambda: list(setting.choices)) if setting.choices else None,
    )
    return Annotated[kind | None, option]


def _given_settings(words: list[str] | None, **values: Any) -> Settings:
    given = Settings()
    for name, value in values.items():
        if value is not None:
            given[name] = METHOD_SETTINGS[name].parse(value) if isinstance(value, str) else value
    given |= parse_settings(words or ())
    if "seed" in given:
        raise SettingError(
            f"--set does not accept seed, got --set seed={given['seed']}: use --seed {given['seed']}"
        )
    return given
