import pytest
import torch

import patchword
from patchword.core.errors import UserError
from patchword.core.scope import Scope
from patchword.layers import TokenMixing
from support.helpers import difference, pixels, randomise


def test_each_channel_is_mixed_along_its_tokens_by_the_same_weights():
    part, tokens = randomise(TokenMixing(6, 10, torch.nn.ReLU())), pixels(2, 6, 8)
    up, down = part.feed_forward.up, part.feed_forward.down
    answer = part(tokens, Scope())
    for channel in range(8):
        hidden = (tokens[:, :, channel] @ up.weight.T + up.bias).clamp(min=0)
        torch.testing.assert_close(answer[:, :, channel], hidden @ down.weight.T + down.bias)


@pytest.mark.parametrize("count", [5, 7])
def test_another_number_of_tokens_is_refused(count):
    with pytest.raises(UserError, match="one number of patches: expected 6 patches, got") as caught:
        TokenMixing(6, 10)(pixels(2, count, 8), Scope())
    assert caught.value.got == count
    assert "image=" in caught.value.hint


@torch.no_grad()
def test_a_mixer_knows_where_its_patches_are():
    """Without positions, but its weights along the tokens are positions enough: other than a Transformer's."""
    model, images = randomise(patchword.create("mixer-mini")).eval(), pixels(1, 1, 28, 28)
    shuffled = images.unflatten(2, (7, 4)).flip(2).flatten(2, 3)
    assert difference(model(shuffled), model(images)) > 1e-2
