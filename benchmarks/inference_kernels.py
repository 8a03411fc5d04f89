"""Check and time the inference kernels on a GPU against their compiled references.

These are `out_proj_mlp` (output projection of attention, residual sum and feed-forward), `linear_gelu`,
`conv_stem_norm` (stem with overlapping patches) and `depthwise_residual` (conditional position encoding), with the
sizes of Swin-B and Pale-T, 256 images, bfloat16.

python benchmarks/inference_kernels.py
"""

import argparse
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from triton.testing import do_bench_cudagraph

from patchword.kernels.depthwise_conv.depthwise_residual import depthwise_residual
from patchword.kernels.depthwise_conv.reference import depthwise_residual_reference
from patchword.kernels.mlp.linear_gelu import linear_gelu
from patchword.kernels.mlp.out_proj_mlp import out_proj_mlp
from patchword.kernels.mlp.reference import OutProjection, Weights, linear_gelu_reference, out_proj_mlp_reference
from patchword.kernels.stem.conv_stem_norm import conv_stem_norm
from patchword.kernels.stem.reference import ConvStemWeights, conv_stem_norm_reference

DTYPE, CHECKED, EPS = torch.bfloat16, 2, 1e-5
Function = Callable[..., Tensor]
# name, kernel, reference, inputs, how many of the inputs have a batch dimension
Case = tuple[str, Function, Function, list[Tensor], int]


def normal(*shape: int, by: float = 1.0) -> Tensor:
    return (torch.randn(*shape, device="cuda") * by).to(DTYPE)


def feed_forwards() -> Iterator[Case]:
    def parts(given: tuple[Tensor, ...]) -> tuple[Tensor, OutProjection, Weights]:
        return given[0], OutProjection(*given[1:4]), Weights(*given[4:])

    for tokens, width in ((3136, 64), (3136, 128), (784, 128), (784, 256), (196, 256)):
        hidden = 4 * width
        up, down = normal(hidden, width, by=width**-0.5), normal(width, hidden, by=hidden**-0.5)
        weights = [1 + normal(width, by=0.2), normal(width), up, normal(hidden), down, normal(width)]
        last = [normal(width, width, by=width**-0.5), normal(width)]
        read = [normal(256, tokens, width), normal(256, tokens, width), *last, *weights]
        yield (
            f"out_proj_mlp, {256 * tokens} x {width}",
            lambda *given: out_proj_mlp(*parts(given), EPS, "gelu"),
            lambda *given: out_proj_mlp_reference(*parts(given), EPS, "gelu"),
            read,
            2,
        )


def products() -> Iterator[Case]:
    for width in (320, 384):
        read = [normal(256, 196, width), normal(4 * width, width, by=width**-0.5), normal(4 * width)]
        yield (
            f"linear_gelu, 50176 x {width}",
            lambda tokens, up, bias: linear_gelu(tokens, up, bias, "gelu"),
            lambda tokens, up, bias: linear_gelu_reference(tokens, up, bias, "gelu"),
            read,
            1,
        )


def stems() -> Iterator[Case]:
    for padding in (3, 2):
        read = [normal(256, 3, 224, 224), normal(64, 3, 7, 7, by=0.1), normal(64), 1 + normal(64, by=0.2), normal(64)]
        yield (
            f"conv_stem_norm, padding {padding}",
            lambda image, *given, padding=padding: conv_stem_norm(image, ConvStemWeights(*given), 4, padding, EPS),
            lambda image, *given, padding=padding: conv_stem_norm_reference(
                image, ConvStemWeights(*given), 4, padding, EPS
            ),
            read,
            1,
        )


def positions() -> Iterator[Case]:
    for side, width in ((56, 64), (28, 128), (14, 256), (7, 512)):
        read = [normal(256, side * side, width), normal(width, 1, 3, 3), normal(width)]
        yield (
            f"depthwise_residual, {side} x {side} x {width}",
            lambda tokens, weight, bias, side=side: depthwise_residual(tokens, weight, bias, side, side),
            lambda tokens, weight, bias, side=side: depthwise_residual_reference(tokens, weight, bias, side, side),
            read,
            1,
        )


@torch.no_grad()
def compare(name: str, kernel: Function, reference: Function, read: list[Tensor], batched: int) -> None:
    found, errors = kernel(*read), []
    for end in (slice(0, CHECKED), slice(-CHECKED, None)):
        parts = [part[end] for part in read[:batched]] + read[batched:]
        exact = reference(*(part.double() for part in parts))
        errors.append(float((found[end].double() - exact).norm() / exact.norm()))
    spent, compiled = do_bench_cudagraph(lambda: kernel(*read)), torch.compile(reference)
    compiled(*read)
    other = do_bench_cudagraph(lambda: compiled(*read))
    print(f"{name}: {spent:.4f} ms, compiled reference {other:.4f} ms, error {max(errors):.1e}", flush=True)
    torch.compiler.reset()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("this needs a GPU; on the CPU the kernels are checked by the tests")
    torch.manual_seed(0)
    for cases in (feed_forwards, products, stems, positions):
        for case in cases():
            compare(*case)


if __name__ == "__main__":
    main()
