from __future__ import annotations

from dataclasses import replace

import pytest
from experiments.protocols.results import Y

from diffpool.data import stratified_folds
from diffpool.experiments import METHODS
from diffpool.experiments.plan import Plan


@pytest.fixture
def plan() -> Plan:
    """Two repeats of ten folds, four epochs."""
    method = METHODS["diffpool"]
    method = replace(method, training=replace(method.training, epochs=4, patience=2))
    return Plan(method, 7, Y, tuple(tuple(stratified_folds(Y, seed)) for seed in (0, 1)))
