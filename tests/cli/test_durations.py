import re

import pytest
from typer.testing import CliRunner

from diffpool.cli.commands import app
from diffpool.cli.durations import duration, duration_parser
from diffpool.errors import SettingError


def test_durations_are_short() -> None:
    assert [duration(s) for s in (5, 300, 7200)] == ["5 s", "5 min", "2.0 h"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("15m", 900), ("15 min", 900), ("2h", 7200), ("1.5H", 5400), ("1e-6s", 1e-6)],
)
def test_a_duration_with_a_unit_means_the_same_for_every_option(text: str, seconds: float) -> None:
    assert duration_parser("--max-time", "s")(text) == seconds
    assert duration_parser("--max-time", "m")(text) == seconds


def test_a_number_alone_is_in_the_unit_of_the_option() -> None:
    assert duration_parser("--max-time", "s")("10") == 10
    assert duration_parser("--max-time", "m")(" 10 ") == 600


@pytest.mark.parametrize(
    "text", ["", "s", "soon", "0s", "-5m", "nan", "inf", "1e999h", "2 days", "1h30m"]
)
def test_nonsense_is_no_duration(text: str) -> None:
    message = "expected --max-time to be a time above 0, such as 90s, 15m or 2h (a number alone is in minutes), got "
    with pytest.raises(SettingError, match=re.escape(message + repr(text))):
        duration_parser("--max-time", "m")(text)


@pytest.mark.parametrize(("command", "unit"), [("tune", "seconds"), ("reproduce", "minutes")])
def test_the_help_of_a_command_names_the_unit_of_a_number_alone(command: str, unit: str) -> None:
    shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "300"}).output
    assert f"a number alone is in {unit}" in shown
