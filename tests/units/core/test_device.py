"""The description of the machine in a run."""

import pytest
import torch

from patchword.core.device import machine


@pytest.mark.parametrize(("threads", "ending"), [(1, ", 1 thread"), (4, ", 4 threads")])
def test_the_processor_counts_its_threads(monkeypatch, threads, ending):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    assert machine(torch.device("cpu"))["processor"].endswith(ending)
