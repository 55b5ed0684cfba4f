"""What the reference shows of classes that are completed when their module is imported."""

import inspect
from importlib import import_module
from typing import Any

import griffe


class Runtime(griffe.Extension):
    """Show the settings in the docstrings of the estimators, and the defaults of fields declared with `setting`."""

    def on_class(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        if cls.docstring and "{settings}" in cls.docstring.value:
            imported = getattr(import_module(cls.module.path), cls.name)
            cls.docstring.value = inspect.cleandoc(imported.__doc__)

    def on_attribute(self, *, attr: griffe.Attribute, **kwargs: Any) -> None:
        value = attr.value
        if isinstance(value, griffe.ExprCall) and str(value.function) == "setting":
            attr.value = value.arguments[0]
