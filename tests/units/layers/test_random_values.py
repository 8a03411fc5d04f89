"""Initial values are drawn, but not for models on the meta device."""

import subprocess
import sys

import torch

from patchword.layers.random_values import kaiming_normal, normal


def test_values_have_the_given_spread():
    torch.manual_seed(0)
    weights = torch.zeros(256, 64, 3, 3)
    normal(weights, std=0.5)
    assert abs(float(weights.std()) - 0.5) < 0.01
    kaiming_normal(weights)
    assert abs(float(weights.std()) - (2 / (256 * 9)) ** 0.5) < 0.001


def test_a_detector_on_the_meta_device_does_not_import_the_compiler():
    code = (
        "import sys, torch, patchword\n"
        "with torch.device('meta'): patchword.create('mask-rcnn')\n"
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
