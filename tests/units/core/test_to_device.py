import pytest
import torch

from patchword.core.device import to_device

CPU = torch.device("cpu")
GIVEN = {
    "a part": torch.arange(12).view(3, 4)[:, 1:],
    "expanded": torch.arange(3)[:, None].expand(3, 4),
    "turned": torch.arange(12).view(3, 4).T,
    "empty": torch.empty(0),
    "one number": torch.tensor(3.5),
}


def test_what_is_there_is_not_copied():
    given = torch.arange(3)
    assert to_device(given, CPU) is given


def test_a_device_may_be_told_by_its_name():
    assert to_device(torch.arange(3), "meta").device.type == "meta"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="this needs a GPU")
@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
def test_to_a_gpu_and_back(given):
    assert torch.equal(to_device(to_device(given, torch.device("cuda")), CPU), given)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="this needs a GPU")
def test_what_comes_back_is_there():
    """though the GPU was busy for long"""
    there = torch.zeros(2**20, device="cuda")
    torch.cuda._sleep(2_000_000_000)
    assert bool((to_device(there + 1, CPU) == 1).all())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="this needs a GPU")
def test_whoever_sends_does_not_wait():
    """while the GPU is busy for long: what is sent has not arrived when the sender goes on"""
    torch.cuda._sleep(2_000_000_000)
    before = torch.cuda.Event()
    to_device(torch.zeros(2**20), torch.device("cuda"))
    before.record()
    assert not before.query()
    torch.cuda.synchronize()
