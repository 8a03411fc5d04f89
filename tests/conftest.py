"""Set before transformers and triton are imported: no network, no progress bars, kernels interpreted."""

import os

import pytest
import torch

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when triton is imported, whoever does so first
torch.backends.cudnn.allow_tf32 = False  # a GPU would shorten the numbers of convolutions to 10 bits


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
