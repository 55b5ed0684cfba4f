from __future__ import annotations

import pytest

from diffpool.errors import SettingError
from diffpool.experiments import Nested, choose_protocol


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
