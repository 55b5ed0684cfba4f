"""Names of a package that are imported on first use (PEP 562), so that `import diffpool` does not import torch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def lazy_names(package: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package whose `names`, and submodules, are imported on first use.

    `names` maps the name of each submodule to the names that it provides, separated by spaces. The package imports the
    same names under `TYPE_CHECKING`, for type checkers and editors. A name must differ from those of the submodules.
    """
    module_of = {name: module for module, found in names.items() for name in found.split()}

    def get(name: str) -> Any:
        if name in module_of:
            value = getattr(import_module(f"{package}.{module_of[name]}"), name)
            setattr(sys.modules[package], name, value)  # the next access finds it without a call
            return value
        if not name.startswith("_") and find_spec(f"{package}.{name}"):
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get
