"""Keys and values that are kept: a text read in parts is the text read at once."""

import pytest
import torch

from patchword.core.text import Text
from patchword.layers import Cache, Causal, Pattern
from patchword.models import REGISTRY
from support.helpers import TINY_TEXT, assert_sharp, difference, texts, tiny_text

BATCH = texts(24, 24, 24, 24)
NAMES = ["gpt", "gpt2-small", "grover-base"]


def is_causal(model) -> bool:
    return all(isinstance(part.partition, Causal) for part in model.modules() if isinstance(part, Pattern))


def test_these_are_the_causal_families():
    families = [family for family in REGISTRY.families if family.reads == "texts"]
    found = [family.name for family in families if is_causal(tiny_text(next(iter(family.names()))))]
    assert found == [REGISTRY.find(name)[0].name for name in NAMES]


@pytest.fixture(params=NAMES)
def model(request):
    return tiny_text(request.param)


@torch.no_grad()
def test_no_token_reads_a_later_one(model):
    assert_sharp(model, BATCH)
    ids = BATCH.ids.clone()
    ids[:, 10:] = ids[:, 10:] % 59 + 1
    before, after = model(BATCH.ids), model(ids)
    assert torch.equal(before[:, :10], after[:, :10])
    assert difference(before[:, 10:], after[:, 10:]) > 1e-2


@pytest.mark.parametrize("cuts", [(1,) * 24, (10, 14), (7, 1, 1, 15), (23, 1)], ids=str)
@torch.no_grad()
def test_a_text_in_parts_is_the_text_at_once(model, cuts):
    cache, parts, start = Cache(), [], 0
    for count in cuts:
        positions = torch.arange(start, start + count).expand(4, -1)
        parts.append(model(Text(BATCH.ids[:, start : start + count], positions=positions), cache))
        start += count
        assert cache.length == start
    assert difference(torch.cat(parts, 1), model(BATCH.ids)) < 1e-5


@torch.no_grad()
def test_padding_on_the_left_changes_nothing(model):
    """The mask tells of all that was read, and positions count from the first token."""
    lengths = torch.tensor([24, 9, 17, 2])
    mask = torch.arange(24) >= 24 - lengths[:, None]
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    cache, parts = Cache(), []
    for start, end in ((0, 22), (22, 23), (23, 24)):
        parts.append(
            model(Text(BATCH.ids[:, start:end], None, mask[:, :end], positions=positions[:, start:end]), cache)
        )
    found = torch.cat(parts, 1)
    for text, length in enumerate(lengths.tolist()):
        assert difference(found[text, -length:], model(BATCH.ids[text : text + 1, -length:])[0]) < 1e-5


@torch.no_grad()
def test_texts_that_go_on_bring_their_keys(model):
    cache, index = Cache(), torch.tensor([2, 2, 0])
    model(BATCH.ids[:, :10], cache)
    cache.take(index)
    found = model(Text(BATCH.ids[index, 10:12], positions=torch.tensor([10, 11]).expand(3, -1)), cache)
    assert difference(found, model(BATCH.ids[index, :12])[:, 10:]) < 1e-5
    wrong = model(BATCH.ids[:3, :12])[:, 10:]
    assert difference(found, wrong) > 1e-2


@torch.no_grad()
def test_room_grows_with_the_text():
    model = tiny_text(max_length=300, name="gpt2-small")
    ids = torch.randint(1, TINY_TEXT["vocabulary"], (2, 300), generator=torch.Generator().manual_seed(3))
    cache = Cache()
    found = [
        model(Text(part, positions=torch.arange(start, start + part.shape[1]).expand(2, -1)), cache)
        for start, part in zip(range(0, 300, 50), ids.split(50, 1), strict=True)
    ]
    assert cache.length == 300
    assert difference(torch.cat(found, 1), model(ids)) < 1e-5
