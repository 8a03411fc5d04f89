"""Set before transformers is imported: no network, no progress bars."""

import os

import pytest
import torch

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
