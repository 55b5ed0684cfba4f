"""`python -m diffpool.cli.settings_page` writes docs/settings.md."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from diffpool.experiments.methods import METHOD_SETTINGS, default_text
from diffpool.settings import Setting

PAGE = Path("docs/settings.md")
GROUPS = ("Training", "Architecture", "Advanced")
HEAD = """\
# Settings

Every setting of a neural method is

- a field of `diffpool.training.Training` or `diffpool.Architecture`,
- an option of `diffpool train` and `diffpool evaluate` (`--set NAME=VALUE` does the same),
- a keyword argument of `DiffPoolClassifier` and `DiffPoolRegressor`, where `clusters` is called `num_clusters`,
- a name in the grid of `diffpool evaluate --protocol nested --grid NAME=VALUE,VALUE`, unless the table says otherwise.

Write a list as `64,32` and a bool as `true` or `false`. The first default is the default of the method `diffpool`;
methods and data sets with other defaults follow. `python -m diffpool.cli.settings_page` generates this page.
"""
TABLE = """
## {}

| setting | option | type | default | values | meaning |
|---|---|---|---|---|---|
"""


def settings_page() -> str:
    """The text of the page: a table for each group of settings."""
    settings = sorted(METHOD_SETTINGS.values(), key=lambda s: GROUPS.index(s.group))
    page = HEAD
    for group, members in groupby(settings, key=lambda s: s.group):
        page += TABLE.format(group) + "".join(map(_row, members))
    return page


def _row(setting: Setting) -> str:
    values = [f"`{choice}`" for choice in setting.choices]
    if limits := setting.range_text():
        values.append(limits.removeprefix("of "))
    meaning = setting.help if setting.searchable else f"{setting.help} Not allowed in grids."
    default = default_text(setting, max_names=len(METHOD_SETTINGS))
    cells = (
        f"`{setting.name}`",
        f"`{setting.option}`",
        type_name(setting),
        default,
        ", ".join(values),
        meaning,
    )
    return "| " + " | ".join(cells) + " |\n"


def type_name(setting: Setting) -> str:
    """The type in a few words: `int`, `list of str`, `str or list of int`."""
    names = {tuple[int, ...]: "list of int", tuple[str, ...]: "list of str"}
    return " or ".join(names.get(kind) or kind.__name__ for kind in setting.kinds)


if __name__ == "__main__":
    PAGE.write_text(settings_page())
