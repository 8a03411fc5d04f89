# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""The three forms of GELU in Triton, with few instructions: in a fused MLP, GELU costs most after the products.

Import it only where Triton is installed.
"""

import math

import triton
import triton.language as tl

_TANH = tl.constexpr(-2 * math.sqrt(2 / math.pi) * math.log2(math.e))
_QUICK = tl.constexpr(-1.702 * math.log2(math.e))


@triton.jit
def normal_tail(distance):
    """Returns the tail of the normal distribution, P(x < -distance) = erfc(distance / sqrt(2)) / 2; distance >= 0.

    Its logarithm is nearly a parabola. Here it is the decreasing polynomial of degree 8 whose power of 2 is the best
    approximation (error 7.5e-9; 5e-8 with the roundings of float32). One exponential and no division: half the
    instructions of erf.
    """
    power = -2.7721898732124828e-06 * distance + 3.862217999994755e-05
    power = power * distance - 0.0001825533399824053
    power = power * distance - 0.00014585857570637017
    power = power * distance + 0.0070754592306911945
    power = power * distance - 0.052505020052194595
    power = power * distance - 0.45920491218566895
    power = power * distance - 1.1511057615280151
    return tl.exp2(power * distance - 1.0)


@triton.jit
def activation(x, form: tl.constexpr):
    """form: gelu, gelu-tanh or quick-gelu"""
    if form == "gelu":
        distance = tl.abs(x)
        output = tl.maximum(x, 0.0) - distance * normal_tail(distance)
    elif form == "gelu-tanh":  # (1 + tanh(s)) / 2 is the logistic function of 2 s
        output = x / (1 + tl.exp2((x + 0.044715 * x * x * x) * _TANH))
    else:
        output = x / (1 + tl.exp2(x * _QUICK))
    return output
