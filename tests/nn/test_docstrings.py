"""The examples in the docstrings of `diffpool.nn` run, and every public part has one."""

from __future__ import annotations

import doctest
import importlib
from typing import Any

import pytest
import torch

from diffpool import nn

FLAGS = doctest.NORMALIZE_WHITESPACE


def examples(text: str | None, names: dict[str, Any]) -> doctest.DocTest:
    return doctest.DocTestParser().get_doctest(text or "", names, "docstring", None, None)


def run(test: doctest.DocTest) -> None:
    report: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append, clear_globs=False)
    assert not report, "".join(report)


@pytest.fixture
def names() -> dict[str, Any]:
    """What the example in the docstring of the package defines."""
    torch.manual_seed(0)
    test = examples(nn.__doc__, {})
    run(test)
    return test.globs


@pytest.mark.parametrize("name", nn.__all__)
def test_every_part_has_a_call_with_shapes_in_its_docstring(
    name: str, names: dict[str, Any]
) -> None:
    part = getattr(nn, name)
    module = importlib.import_module(part.__module__)
    test = examples(part.__doc__, {**vars(module), **names})
    assert test.examples
    assert "[" in part.__doc__
    run(test)
