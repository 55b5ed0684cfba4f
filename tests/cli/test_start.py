"""Help, version, completion and mistakes are handled without importing torch or NumPy."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

HEAVY = {"torch", "numpy", "scipy", "sklearn", "matplotlib", "safetensors"}

# Prints the packages that the command has imported, after its own output.
PROGRAM = """
import sys
sys.argv[0] = "diffpool"
from diffpool.cli import main
try:
    main()
finally:
    print("\\nimported:", *sorted({m.split(".")[0] for m in sys.modules}))
"""

COMMANDS = {
    "help": ["--help"],
    "version": ["--version"],
    "no command": [],
    "help of train": ["train", "--help"],
    "all options of evaluate": ["evaluate", "--help-all"],
    "help of plot": ["plot", "--help"],
    "an unknown figure": ["plot", "clustres"],
    "an unknown command": ["trian"],
    "an unknown option": ["train", "--epcohs", "3"],
    "an unknown method": ["train", "--method", "grapsage"],
    "an unknown method to evaluate": ["evaluate", "ENZYMES", "--method", "grapsage"],
    "an invalid setting": ["train", "--epochs", "0"],
    "an unknown setting": ["train", "--set", "hiden=3"],
    "an unknown setting in a grid": [
        "evaluate",
        "ENZYMES",
        "--protocol",
        "nested",
        "--grid",
        "hiden=3",
    ],
    "an argument that is missing": ["predict"],
}


def start(words: list[str], **variables: str) -> tuple[set[str], str]:
    """The packages that the command has imported, and what it prints."""
    command = [sys.executable, "-c", PROGRAM, *words]
    environment = {**os.environ, **variables}
    run = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    output, _, imported = run.stdout.partition("\nimported:")
    return set(imported.split()), output + run.stderr


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_the_answer_does_not_wait_for_torch(words: list[str]) -> None:
    imported, output = start(words)
    assert "typer" in imported
    assert output.strip()
    assert not imported & HEAVY


def test_completion_does_not_wait_for_torch() -> None:
    variables = {"COMP_WORDS": "diffpool train --method grap", "COMP_CWORD": "3"}
    imported, output = start([], _DIFFPOOL_COMPLETE="complete_bash", **variables)
    assert output.split() == ["graphsage"]
    assert not imported & HEAVY
