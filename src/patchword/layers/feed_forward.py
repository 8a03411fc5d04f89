"""The sublayer that treats each token alone."""

from collections.abc import Callable
from typing import NamedTuple, cast

import torch.nn.functional as F
from torch import Tensor, nn

from patchword.core.scope import Scope
from patchword.kernels.common.availability import is_on_cuda, needs_grad
from patchword.kernels.mlp.bias_gelu import bias_gelu, has_bias_gelu_kernel
from patchword.kernels.mlp.fused_mlp import Weights, feed_forward, has_fused_mlp_kernel
from patchword.kernels.mlp.gelu import gelu_in_place, may_overwrite
from patchword.kernels.mlp.linear_gelu import has_linear_gelu_kernel, linear_gelu
from patchword.kernels.mlp.out_proj_mlp import (
    OutProjection,
    has_out_proj_mlp_kernel,
    out_proj_mlp,
    out_proj_mlp_reference,
)
from patchword.layers.activation import Gelu, QuickGelu
from patchword.layers.affine import is_affine
from patchword.layers.dropout import Dropout, is_idle
from patchword.layers.watched import has_hooks

_FORMS: dict[type[nn.Module], str] = {Gelu: "gelu", QuickGelu: "quick-gelu"}


class _Known(NamedTuple):
    weights: Weights
    eps: float
    form: str


class FeedForward(nn.Module):
    """up, activation, down"""

    def __init__(self, width: int, hidden: int, activation: nn.Module | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.activation = activation or Gelu()
        self.dropout = Dropout(dropout)
        self.down = nn.Linear(hidden, width)

    def forward(self, tokens: Tensor, scope: Scope) -> Tensor:
        """(batch, tokens, width) -> (batch, tokens, width)"""
        lowered: Tensor = self.down(self.dropout(self._raised(tokens)))
        return lowered

    def _raised(self, tokens: Tensor) -> Tensor:
        """up and activation: by a kernel where there is one (its dropout is better off beside torch's own GELU), in one
        place where that is quicker; as two modules where someone watches them"""
        up, form = self.up, _form(self.activation)
        known = type(up) is nn.Linear and up.bias is not None and not any(map(has_hooks, (up, self.activation)))
        if form is not None and known:
            if is_on_cuda(tokens) and has_linear_gelu_kernel(tokens, up.weight, up.bias):
                return linear_gelu(tokens, up.weight, up.bias, form)
            if form == "gelu" and has_bias_gelu_kernel(tokens, up.weight) and is_idle(self.dropout):
                return bias_gelu(F.linear(tokens, up.weight), up.bias)
            between = up(tokens)
            overwritten = form == "gelu" and may_overwrite(between)
            return gelu_in_place(between) if overwritten else cast(Tensor, self.activation(between))
        return cast(Tensor, self.activation(up(tokens)))

    def at_once(self, tokens: Tensor, norm: nn.Module, scope: Scope) -> Tensor | None:
        """tokens + self(norm(tokens)) in one kernel; None where there is none, or where someone watches the parts"""
        known = self._known(tokens, norm)
        if known is None or not has_fused_mlp_kernel(tokens, known.weights):
            return None
        return feed_forward(tokens, known.weights, known.eps, known.form)

    def behind(self, tokens: Tensor, output: nn.Module, norm: nn.Module) -> Callable[[Tensor], Tensor] | None:
        """x + self(norm(x)) of x = tokens + output(branch), as a function of a branch; None as with at_once"""
        known = self._known(tokens, norm)
        if known is None or type(output) is not nn.Linear or output.bias is None:
            return None
        matrix, bias = output.weight, output.bias
        if not has_out_proj_mlp_kernel(tokens, matrix, bias, known.weights):
            return None

        def finish(branch: Tensor) -> Tensor:
            run = (
                out_proj_mlp_reference if needs_grad(branch) else out_proj_mlp
            )  # of the branch nobody knew before whether it learns
            return run(tokens, OutProjection(branch, matrix, bias), *known)

        return finish

    def _known(self, tokens: Tensor, norm: nn.Module) -> _Known | None:
        """what kernels are given, if they can know all that stands between, and nobody watches it"""
        if not is_on_cuda(tokens):
            return None
        up, activation, dropout, down = self.up, self.activation, self.dropout, self.down
        form = _form(activation)
        if form is None or type(self) is not FeedForward or not is_affine(norm, up, down):
            return None
        if not is_idle(dropout) or any(map(has_hooks, (self, norm, up, activation, down))):
            return None
        return _Known(Weights(norm.weight, norm.bias, up.weight, up.bias, down.weight, down.bias), norm.eps, form)


def _form(activation: nn.Module) -> str | None:
    """its name among the kernel's forms; a class that extends one is another function"""
    if type(activation) is nn.GELU:
        return "gelu-tanh" if activation.approximate == "tanh" else "gelu"
    return _FORMS.get(type(activation))
