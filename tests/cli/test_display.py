"""What the commands print."""

from __future__ import annotations

from diffpool.cli.display import counted


def test_numbers_and_nouns_agree() -> None:
    assert counted(1, "class", "classes") == "1 class"
    assert counted(2, "class", "classes") == "2 classes"
    assert counted(0, "graph") == "0 graphs"
