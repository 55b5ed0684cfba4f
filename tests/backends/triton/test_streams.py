"""The second stream of a capture."""

from __future__ import annotations

import gc

import pytest
import torch

from diffpool.backends.capture import Programs

streams = pytest.importorskip("diffpool.backends.triton.streams")

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("parted", [False, True])
def test_a_capture_that_runs_out_of_memory_frees_what_it_had(parted: bool) -> None:
    """Also if it does so while two streams are parted."""
    programs: Programs[str, None] = Programs()

    def work(fails: bool) -> None:
        x = torch.ones(2**24, device="cuda")  # 64 MiB
        if not fails:
            return
        if parted:
            with streams.side_stream(x):
                x.sum()
                raise torch.OutOfMemoryError
        raise torch.OutOfMemoryError

    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    programs.run("a", lambda: work(False))
    with pytest.raises(torch.OutOfMemoryError):
        programs.run("a", lambda: work(True))
    gc.collect()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= before + 2**25
    programs.run("b", lambda: work(False))
    programs.run("b", lambda: work(False))  # captured


def test_programs_that_were_all_forgotten_can_be_captured_again() -> None:
    programs: Programs[str, torch.Tensor] = Programs()
    x = torch.ones(3, device="cuda")
    for _ in range(2):
        for _ in range(3):  # as it is, captured, replayed
            found = programs.run("a", lambda: x * 2)
        assert found.tolist() == [2.0] * 3
        programs.forget("a")
