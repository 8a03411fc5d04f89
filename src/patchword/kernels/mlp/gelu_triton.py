# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""GELU in a kernel, where it is the most expensive part of a feed-forward: its three forms in as few steps as can be.

Only to be imported where Triton is installed.
"""

import math

import triton
import triton.language as tl

_TANH = tl.constexpr(-2 * math.sqrt(2 / math.pi) * math.log2(math.e))
_QUICK = tl.constexpr(-1.702 * math.log2(math.e))


@triton.jit
def below(distance):
    """The chance that a normal number is less than -distance, which is not negative: erfc(distance / sqrt(2)) / 2.

    Its logarithm is nearly a parabola, here a polynomial of degree 8 that falls everywhere: of all those, the one whose
    power of 2 is nearest (7.5e-9 away; 5e-8 with all roundings of float32). One exponential and no division: half the
    steps of erf.
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
        answer = tl.maximum(x, 0.0) - distance * below(distance)
    elif form == "gelu-tanh":  # (1 + tanh(s)) / 2 is the logistic function of 2 s
        answer = x / (1 + tl.exp2((x + 0.044715 * x * x * x) * _TANH))
    else:
        answer = x / (1 + tl.exp2(x * _QUICK))
    return answer
