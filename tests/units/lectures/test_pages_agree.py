"""Pages of the documentation agree with the code and with the results that they name."""

import json
import re
from typing import get_args

import pytest
import torch
import torch.nn.functional as F

from patchword.layers import ImagePositionName
from patchword.models import REGISTRY
from support.source_code import ROOT

WORDS = {"six": 6, "nine": 9}


def page(name: str) -> str:
    return re.sub(r"\s+", " ", (ROOT / "docs" / name).read_text(encoding="utf-8"))


def test_the_positions_of_the_vision_page_are_those_of_the_code():
    (listed,) = re.findall(r"selects the position encoding: (.+?)\. ViT, DeiT", page("vision.md"))
    assert re.findall(r"`(\w+)`", listed) == list(get_args(ImagePositionName))
    (outside,) = re.findall(r"only the encodings outside of attention: all but (.+?)\. ", page("vision.md"))
    every, some = re.findall(r"names one of (\w+) \(CvT and PVT: one of (\w+),", page("architecture.md"))[0]
    assert WORDS[every] == len(get_args(ImagePositionName))
    assert WORDS[some] == len(get_args(ImagePositionName)) - len(re.findall(r"`(\w+)`", outside))


def time_per_mac() -> dict[str, float]:
    """The time per MAC of each model beside that of DeiT-S, from the stored benchmarks."""
    rates = {}
    for name in ("vision-speed-h200", "vision-per-mac-h200"):
        content = json.loads((ROOT / f"benchmarks/results/{name}.json").read_text(encoding="utf-8"))
        for result in content["results"]:
            if not result["setting"]["train"]:
                model = result["setting"]["model"]
                rates[model] = result["images_per_second"]["patchword"] * REGISTRY.find(model)[1].macs
    return {model: rates["deit-small"] / rate for model, rate in rates.items()}


@pytest.mark.parametrize(
    ("model", "pattern"),
    [
        ("swin-tiny", r"Swin-T takes ([\d.]+) times the time of DeiT-S"),
        ("cswin-tiny", r"CSWin-T ([\d.]+) times"),
        ("pale-tiny", r"Pale-T ([\d.]+) times"),
    ],
)
def test_the_speed_of_windows_is_that_of_the_benchmarks(model, pattern):
    (printed,) = re.findall(pattern, page("vision.md"))
    assert f"{time_per_mac()[model]:.2f}" == printed
    assert "3 to 6 times" not in page("vision.md")


def test_both_forms_of_label_smoothing_are_as_the_pages_say():
    """ε / (K - 1) for each other class is torch's form with ε · K / (K - 1)."""
    classes, epsilon = 10, 0.1
    scores, labels = torch.randn(4, classes, dtype=torch.float64), torch.tensor([0, 3, 9, 3])
    slide = torch.full((4, classes), epsilon / (classes - 1), dtype=torch.float64)
    slide[torch.arange(4), labels] = 1 - epsilon
    torch_form = F.cross_entropy(scores, labels, label_smoothing=epsilon * classes / (classes - 1))
    assert torch.allclose(torch_form, F.cross_entropy(scores, slide))
    assert "`label_smoothing` = ε · K / (K - 1)" in page("why-it-works.md")
    assert f"has {1 - epsilon + epsilon / classes:.2f} or {1 - epsilon:g}." in page("why-it-works.md")
