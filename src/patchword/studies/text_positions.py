"""Train short, test longer: the lectures' three properties of a position encoding, measured.

The task needs nothing but order: at every token, predict the token before it. Training texts have one length, test
texts are up to four times as long.

- smooth: neighbours are similar. Measured as the mean distance of neighbours divided by that of all pairs; a table of
  random rows has 1.
- data-driven: the encoding is learned. Measured as how far training moved it, relative to its size.
- inductive: it works for texts longer than those in training. Measured as the accuracy on such texts.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patchword.layers import TEXT_POSITIONS, FloaterTextPositions, RelativeVectors, TextModel, TextPositionName
from patchword.models import REGISTRY

SCHEMES: tuple[TextPositionName, ...] = tuple(TEXT_POSITIONS)


@dataclass(frozen=True)
class Exercise:
    """Sizes of the task. lengths: of the test texts, as multiples of the training length."""

    length: int = 24
    steps: int = 400
    batch_size: int = 32
    learning_rate: float = 4e-3
    words: int = 12
    lengths: tuple[float, ...] = (1, 1.5, 2, 2.5, 3, 3.5, 4)
    texts: int = 200
    seed: int = 0

    @property
    def tested(self) -> list[int]:
        return [int(self.length * times) for times in self.lengths]


@dataclass(frozen=True)
class Finding:
    """The result of one position encoding. weights: its parameters. accuracies: per test length."""

    scheme: TextPositionName
    weights: int
    accuracies: tuple[float, ...]
    encodings: Tensor | None
    roughness: float | None
    moved: float | None
    solver: float | None  # error of FLOATER's solver compared with finer steps


def study(schemes: Sequence[TextPositionName], task: Exercise, log: Callable[[str], None]) -> Iterator[Finding]:
    for number, scheme in enumerate(schemes, 1):
        log(f"{number} of {len(schemes)}: {scheme}")
        yield _find(scheme, task)


def _find(scheme: TextPositionName, task: Exercise) -> Finding:
    torch.manual_seed(task.seed)
    model = _model(scheme, task)
    places = max(task.tested)
    before = encodings(model, places)
    _train(model, task)
    after = encodings(model, places)
    own = [value.numel() for name, value in model.named_parameters() if _is_position(name)]
    flow = model.embedding.positions
    return Finding(
        scheme,
        sum(own),
        tuple(accuracy(model, task, length) for length in task.tested),
        after,
        None if after is None else roughness(after),
        None if before is None or after is None else float((after - before).norm() / before.norm()),
        flow.flow.error(places) if isinstance(flow, FloaterTextPositions) else None,
    )


def _model(scheme: TextPositionName, task: Exercise) -> TextModel:
    """Build a BERT of one block, with large initial word embeddings, so that sinusoids do not dominate them."""
    sizes = {
        "width": 64,
        "depth": 1,
        "heads": 4,
        "hidden": 64,
        "vocabulary": task.words,
        "max_length": max(task.tested),
    }
    still = {"dropout": 0.0, "attention_dropout": 0.0}
    model = REGISTRY.create("bert-tiny", **sizes, **still, head="tags", classes=task.words, position=scheme)
    found = cast(TextModel, model)
    nn.init.normal_(found.embedding.words.weight, std=0.3)
    return found


def _is_position(name: str) -> bool:
    return name.startswith("embedding.positions.") or ".position." in name


def texts(task: Exercise, count: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return (count, length) tokens and the token before each; 0 before the first, which is not a word."""
    ids = torch.randint(1, task.words, (count, length), generator=generator)
    return ids, F.pad(ids[:, :-1], (1, 0))


def _train(model: TextModel, task: Exercise) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=task.learning_rate, weight_decay=0.01)
    warm = max(1, task.steps // 8)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm, 1) * (1 - step / task.steps)
    )
    generator = torch.Generator().manual_seed(task.seed)
    model.train()
    for _ in range(task.steps):
        ids, expected = texts(task, task.batch_size, task.length, generator)
        loss = F.cross_entropy(model(ids).flatten(0, 1), expected.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    model.eval()


@torch.no_grad()
def accuracy(model: TextModel, task: Exercise, length: int) -> float:
    """Return the accuracy over all tokens of test texts."""
    ids, expected = texts(task, task.texts, length, torch.Generator().manual_seed(task.seed + 1))
    return float((model(ids).argmax(-1) == expected).float().mean())


@torch.no_grad()
def encodings(model: TextModel, places: int) -> Tensor | None:
    """Return the position vectors, (positions, width); of relative encodings the first block's, (distances, width)."""
    for part in model.modules():
        if isinstance(part, RelativeVectors):
            return part.keys.clone()
    found = cast(Tensor, model.embedding.positions(torch.arange(places)))
    return found.clone() if found.ndim else None


def roughness(table: Tensor) -> float:
    """Return the mean distance of neighbours divided by that of all pairs."""
    return float((table[1:] - table[:-1]).norm(dim=-1).mean() / torch.pdist(table).mean())
