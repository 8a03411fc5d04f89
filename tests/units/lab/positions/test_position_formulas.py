"""The page computes what the library computes: sinusoids, relative biases, and attention that is a convolution."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import patchword
from patchword.analysis.attention.as_convolution import attention_for
from patchword.analysis.positions import position_tables
from patchword.core.grid import Grid
from patchword.layers import RelativeTable
from patchword.layers.embedding.absolute import SinusoidalPositions
from patchword.layers.embedding.sinusoids import sinusoids_at
from support.lab.node import run_node

SINUSOIDS = """(page, given) => ({
  text: given.text.map(([length, width, layout]) => [...page.sinusoids(length, width, 10000, layout).values]),
  grids: given.grids.map(([height, columns, width]) => [...page.gridSinusoids(height, columns, width, 10000).values]),
  near: page.similarities(page.sinusoids(40, 16, 10000, 'interleaved'), 7),
})"""
RELATIVE = """(page, given) => given.queries.map((query) =>
  given.heads.map((head) =>
    page.relativeBias(given.table, given.height, given.width, given.heads.length, head, query)))"""
ROTARY = """(page, given) => ({
  turned: given.positions.map((position) => page.rotated(given.vector, position, 10000)),
  scores: given.positions.map((distance) => page.rotaryScore(distance, given.vector.length, 10000)),
})"""
CONVOLUTION = """(page, given) => ({
  side: page.SIDE,
  samples: page.SAMPLES,
  presets: page.PRESETS,
  found: given.strengths.map((strength) => {
    const heads = page.OFFSETS.map((_, head) => page.headOutput(page.SAMPLES[given.sample], page.SIDE, head, strength))
    return {
      sum: page.weighted(heads, given.kernel),
      weights: page.OFFSETS.map((_, head) => [...page.headWeights(page.SIDE, head, given.query, strength)]),
    }
  }),
  convolution: page.convolve(page.SAMPLES[given.sample], page.SIDE, given.kernel),
})"""


def test_sinusoids_are_those_of_the_library(tmp_path: Path) -> None:
    text = [(50, 64, "interleaved"), (50, 64, "halves"), (33, 12, "t2t"), (5, 2, "interleaved")]
    grids = [(7, 7, 64), (3, 5, 12)]
    found = run_node(tmp_path, "encodings.js", SINUSOIDS, {"text": text, "grids": grids})
    for (length, width, layout), values in zip(text, found["text"], strict=True):
        expected = sinusoids_at(torch.arange(length), width, layout)
        assert (torch.tensor(values).view(length, width) - expected).abs().max() < 1e-5
    for (height, columns, width), values in zip(grids, found["grids"], strict=True):
        expected = SinusoidalPositions(width)(torch.zeros(1, height * columns, width), Grid(height, columns))[0]
        assert (torch.tensor(values).view(-1, width) - expected).abs().max() < 1e-5
    table = sinusoids_at(torch.arange(40), 16, "interleaved")
    assert (torch.tensor(found["near"]) - F.cosine_similarity(table, table[7], dim=-1)).abs().max() < 1e-5


def test_relative_biases_are_those_of_swin(tmp_path: Path) -> None:
    model = patchword.load("zoo:swin-mini")
    one = position_tables(model)[-1]
    module = [module for module in model.modules() if isinstance(module, RelativeTable)][-1]
    assert one.grid is not None
    heads = one.table.shape[-1]
    given = {
        "table": one.table.flatten().tolist(),
        "height": one.grid.height,
        "width": one.grid.width,
        "heads": list(range(heads)),
        "queries": [0, 10, 48],
    }
    found = torch.tensor(run_node(tmp_path, "encodings.js", RELATIVE, given))
    empty = torch.zeros(1, heads, one.grid.tokens, 1)
    with torch.no_grad():
        expected = module.bias(empty, empty, one.grid)[:, [0, 10, 48]].transpose(0, 1)
    assert (found - expected).abs().max() < 1e-6
    assert float(expected.std()) > 0.05


def test_rotary_angles_turn_complex_numbers(tmp_path: Path) -> None:
    vector = torch.randn(16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    positions = [0, 1, 5, 40]
    given = {"vector": vector.tolist(), "positions": positions}
    found = run_node(tmp_path, "encodings.js", ROTARY, given)
    speed = 10_000.0 ** -(torch.arange(8, dtype=torch.float64) / 8)
    for position, turned, score in zip(positions, found["turned"], found["scores"], strict=True):
        expected = torch.view_as_complex(vector.view(8, 2)) * torch.exp(1j * position * speed)
        assert (torch.tensor(turned, dtype=torch.float64) - torch.view_as_real(expected).flatten()).abs().max() < 1e-9
        assert score == pytest.approx(float((position * speed).cos().mean()), abs=1e-9)
    near, far = (torch.tensor(one, dtype=torch.float64) for one in found["turned"][1:3])
    other = torch.view_as_complex(vector.view(8, 2)) * torch.exp(1j * 4 * speed)
    assert float(near @ far) == pytest.approx(float(vector @ torch.view_as_real(other).flatten()), abs=1e-9)


def attention_of_library(given: dict[str, Any], image: torch.Tensor, strength: float) -> tuple[torch.Tensor, Any]:
    kernel = torch.tensor(given["kernel"]).view(1, 1, 3, 3)
    layer = attention_for(kernel, None, (len(image), len(image)), strength=strength)
    with torch.no_grad():
        return layer(image[None, None]).flatten(), layer.attention_weights(image[None, None])


@pytest.mark.parametrize("query", [0, 60, 195])
def test_attention_is_that_of_the_library(tmp_path: Path, query: int) -> None:
    strengths = [0, 1, 4, 200]
    kernel = [0.5, -1, 2, 0, 3, -0.25, 1, 1, -2]
    given = {"kernel": kernel, "sample": "House", "strengths": strengths, "query": query}
    found = run_node(tmp_path, "encodings.js", CONVOLUTION, given)
    image = torch.tensor(found["samples"]["House"]).view(found["side"], found["side"])
    for strength, answer in zip(strengths, found["found"], strict=True):
        output, weights = attention_of_library(given, image, strength)
        assert (torch.tensor(answer["sum"]) - output).abs().max() < 1e-5
        assert (torch.tensor(answer["weights"]) - weights[:, 1 + query]).abs().max() < 1e-6
    expected = F.conv2d(image[None, None], torch.tensor(kernel).view(1, 1, 3, 3), padding=1).flatten()
    assert (torch.tensor(found["convolution"]) - expected).abs().max() < 1e-6
    sums = [torch.tensor(one["sum"], dtype=torch.float64) for one in found["found"]]
    exact = torch.tensor(found["convolution"], dtype=torch.float64)
    assert (sums[-1] - exact).abs().max() < 1e-12
    assert (sums[1] - exact).abs().max() > 0.1


def test_the_samples_and_kernels_fit_the_page(tmp_path: Path) -> None:
    given = {"kernel": [0] * 9, "sample": "Ring", "strengths": [], "query": 0}
    found = run_node(tmp_path, "encodings.js", CONVOLUTION, given)
    assert all(len(pixels) == found["side"] ** 2 for pixels in found["samples"].values())
    assert all(set(pixels) == {0.1, 0.9} for pixels in found["samples"].values())
    for kernel in found["presets"].values():
        assert len(kernel) == 9
        assert all(-5 <= one <= 5 and one % 0.25 == 0 for one in kernel)
