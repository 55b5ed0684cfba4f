"""The output of `diffpool tune`: progress with the best trials so far, the table of trials, and the picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from diffpool.cli.display import counted
from diffpool.cli.durations import duration
from diffpool.cli.evaluate_display import (
    AnyStatus,
    add_bars,
    add_training,
    live_display,
    training_text,
)
from diffpool.experiments.methods import METHOD_SETTINGS
from diffpool.experiments.status import Leader, Search, Status

if TYPE_CHECKING:
    from diffpool.experiments import Tuned

PICTURE = "tuning.png"
SHOWN = 5  # trials


@contextmanager
def tuning_display(console: Console, title: str) -> Iterator[Callable[[AnyStatus], None]]:
    """Yields a function to call with each status."""
    with live_display(console, title, _view, line) as watch:
        yield watch


def line(status: AnyStatus) -> str:
    """The status as a line of text."""
    assert isinstance(status, Status)
    assert status.search is not None
    text = f"{_stage(status, status.search)}, epoch {status.epoch}/{status.max_epochs}, {training_text(status)}"
    if status.search.leaders:
        best = status.search.leaders[0]
        text += f"; best so far {_score(best)}: {_words(best.settings)}"
    return text


def _stage(status: Status, search: Search) -> str:
    if search.tried == search.trials:
        return f"settings chosen, training {counted(status.active, 'member')}"
    if status.search_seconds is not None:
        left = duration(status.search_seconds)
        return f"{search.tried} trials, {status.active} in training, {left} for trials"
    return f"trials {search.tried}/{search.trials}, {status.active} in training"


def _view(title: str, status: AnyStatus) -> RenderableType:
    assert isinstance(status, Status)
    assert status.search is not None
    search = status.search
    table = Table.grid(padding=(0, 2))
    if status.search_seconds is None:
        add_bars(table, ("trials", search.tried, search.trials))
    add_training(table, status)
    shown: list[RenderableType] = [Text(title), Text(_stage(status, search)), table]
    return Group(*shown, _leaders(search)) if search.leaders else Group(*shown)


def _leaders(search: Search) -> Table:
    table = Table("trial", "validation", "loss", "settings", title="best trials so far")
    for leader in search.leaders:
        accuracy = "–" if leader.accuracy is None else f"{100 * leader.accuracy:.1f} %"
        settings = Text(_words(leader.settings))
        table.add_row(str(leader.trial), accuracy, f"{leader.loss:.3f}", settings)
    return table


def _score(leader: Leader) -> str:
    if leader.accuracy is None:
        return f"loss {leader.loss:.3f}"
    return f"{100 * leader.accuracy:.1f} %"


def _as_text(settings: Mapping[str, Any]) -> dict[str, str]:
    return {name: METHOD_SETTINGS[name].show(value) for name, value in settings.items()}


def _words(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def print_trials(console: Console, result: Tuned) -> None:
    """Print the best trials and those that the members of the ensemble come from."""
    chosen = [trial for n, trial in enumerate(result.trials) if n < SHOWN or trial.members]
    names = [
        name
        for name in result.trials[0].settings
        if len({str(trial.settings[name]) for trial in result.trials}) > 1
    ]
    common = {name: v for name, v in result.trials[0].settings.items() if name not in names}
    title = f"the best of {len(result.trials)} trials" if len(result.trials) > 1 else "the trial"
    table = Table("trial", "members", "validation", "loss", "settings", title=title)
    for trial in chosen[: 2 * SHOWN]:
        accuracy, loss = trial.validation_accuracy, trial.validation_loss
        table.add_row(
            str(trial.number),
            str(trial.members or "–"),
            "–" if accuracy is None else f"{100 * accuracy:.1f} %",
            "failed" if loss is None else f"{loss:.3f}",
            Text(_words(_as_text({name: trial.settings[name] for name in names})) or "–"),
        )
    console.print(table)
    if common:
        console.print(f"in all trials: {_words(_as_text(common))}", soft_wrap=True)


def draw_trials(result: Tuned, out: Path, shown: Console) -> None:
    """Draw which settings mattered, if Matplotlib is installed and there is something to compare."""
    picture = out / PICTURE
    with suppress(OSError):
        picture.unlink(missing_ok=True)  # of an earlier search
    try:
        from diffpool.viz import draw_tuning
    except ImportError:
        message = f"no picture: to get {PICTURE}, run `pip install 'diffpool[plot]'`"
        shown.print(message, markup=False)
        return
    try:
        draw_tuning(result.trials, picture)
    except OSError as error:
        shown.print(f"no picture: {picture} cannot be written ({error.strerror})")
