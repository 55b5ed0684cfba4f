from __future__ import annotations

import pytest

from diffpool.errors import SettingError
from diffpool.experiments import Nested, choose_protocol, settings_for, space_for


def test_fixed_settings_are_not_searched_over() -> None:
    protocol = choose_protocol("nested", None, {"learning_rate": 0.1})
    assert isinstance(protocol, Nested)
    assert [name for name, _ in protocol.grid] == ["weight_decay"]
    with pytest.raises(SettingError, match="hidden is given both as a setting and in the grid"):
        choose_protocol("nested", ["hidden=8,16"], {"hidden": 8})
    with pytest.raises(SettingError, match="the protocol tenfold does not use a grid"):
        choose_protocol("tenfold", ["hidden=8,16"])
    with pytest.raises(SettingError, match=r"the protocol paper .* patience does not apply"):
        choose_protocol("paper", None, {"patience": 3})
    with pytest.raises(SettingError, match="expected one of the protocols paper, tenfold, nested"):
        choose_protocol("magic")


def test_a_tuned_protocol_searches_as_tune_does() -> None:
    method = settings_for("graphsage", "embedded")
    fixed = {"dropout": 0.5}
    protocol = choose_protocol("nested", None, fixed, tuned=method)
    assert isinstance(protocol, Nested)
    assert (protocol.halving, protocol.trials) == (True, 24)
    assert protocol.grid == space_for(method, ["dropout"])
    smaller = choose_protocol("nested", ["hidden=8,16"], fixed, trials=1, tuned=method)
    assert isinstance(smaller, Nested)
    assert (smaller.halving, smaller.grid, len(smaller.points)) == (True, (("hidden", (8, 16)),), 1)
    with pytest.raises(SettingError, match=r"the protocol tenfold .* does not tune: only nested"):
        choose_protocol("tenfold", tuned=method)
    with pytest.raises(SettingError, match="expected trials to be an integer from 1"):
        choose_protocol("nested", trials=0, tuned=method)
