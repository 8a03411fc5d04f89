"""A trained text model with its tokenizer and its folder."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from patchword.core.device import pick_device, pick_precision
from patchword.core.errors import UserError
from patchword.data.text.batching.batches import BatchFormat, Examples
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.fusion.rules import fuse_on_gpu
from patchword.layers.model import Model
from patchword.layers.text.model import TextModel
from patchword.models import REGISTRY
from patchword.recipes.run_folder import RunFolder
from patchword.recipes.text.inference.outputs import Advance, Ask, Outputs, packed_outputs
from patchword.recipes.text.model import as_text, batch_format, check_vocabulary
from patchword.training.step import Precision, autocast
from patchword.weights import load
from patchword.weights.local_path import local_path

_ROWS = 4096  # texts per group
_CHARACTERS = 1_000_000  # characters per group

Thing = TypeVar("Thing")


@dataclass
class Counts:
    """The number of truncated texts, and of texts that were split into windows."""

    shortened: int = 0
    windowed: int = 0

    def add(self, examples: Examples) -> None:
        self.shortened += examples.shortened
        self.windowed += examples.windowed


@dataclass(frozen=True)
class Reader:
    folder: Path
    model: TextModel
    tokenizer: Tokenizer
    form: BatchFormat
    precision: Precision = "float32"
    counts: Counts = field(default_factory=Counts)

    @property
    def head(self) -> str:
        return str(self.model.card.config["head"])

    @property
    def depth(self) -> int:
        return int(self.model.card.config["depth"])

    @property
    def max_length(self) -> int:
        return int(self.model.card.config["max_length"])

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the names of the classes or tags; numbers if they have no names."""
        card = self.model.card
        return card.labels or tuple(str(number) for number in range(card.config["classes"]))

    def outputs(self, examples: Examples, rows: float, advance: Advance, ask: Ask | None = None) -> Outputs:
        """Return the model's output for every text. rows: the total that progress reports add up to"""
        fast = fuse_on_gpu(self.model)
        asked = ask or (lambda batch: fast(batch.text))
        share = rows / len(examples)
        with autocast(self.precision, self.form.device):
            return packed_outputs(asked, examples, self.form, lambda done: advance(share * done))


def open_reader(
    name: str, device: str = "auto", precision: Literal["auto", "float32", "bfloat16"] = "float32"
) -> Reader:
    """Open a folder with weights and a tokenizer: a run, also by its name in `runs`, or a model of another library."""
    path = folder_of(name)
    return text_reader(load_trained(path), path, device, precision)


def load_trained(path: Path) -> Model:
    """Load the model of a run, of a folder or of a file; a run without weights is an error with a hint."""
    if (path / "recipe.yaml").is_file() and not (path / "model.safetensors").is_file():
        RunFolder(path).model()  # raises an error with a hint
    return load(path)


def text_reader(
    model: Model, path: Path, device: str = "auto", precision: Literal["auto", "float32", "bfloat16"] = "float32"
) -> Reader:
    """Return a loaded text model with the tokenizer beside its weights. path: of the weights"""
    found = as_text(model, str(path))
    tokenizer = Tokenizer.read(path if path.is_dir() else path.parent)
    check_vocabulary(found, tokenizer, str(path))
    return reader_of(path, found, tokenizer, device, precision)


def reader_of(
    folder: Path,
    model: TextModel,
    tokenizer: Tokenizer,
    device: str = "auto",
    precision: Literal["auto", "float32", "bfloat16"] = "float32",
) -> Reader:
    """Move a model to its device, in evaluation mode, and return it with its tokenizer. folder: named in messages."""
    target = pick_device(device)
    form, chosen = batch_format("auto", tokenizer, target), pick_precision(precision, target)
    return Reader(folder, model.to(target).eval(), tokenizer, form, chosen)


def folder_of(name: str) -> Path:
    found = next((path for path in (local_path(name), Path("runs") / name) if path.exists()), None)
    if found is None:
        known = name in REGISTRY.names()
        hint = (
            "a model of the registry has no trained weights: train it, or give a folder with weights" if known else ""
        )
        raise UserError(
            f"there is nothing at {name}", expected="a run, a model's folder, zoo:NAME, or hf:OWNER/REPO", hint=hint
        )
    return found


def grouped(things: Sequence[Thing], size: Callable[[Thing], int], most: int = _CHARACTERS) -> Iterator[list[Thing]]:
    """Yield groups, so that the tokens of a large file are never all in memory."""
    group: list[Thing] = []
    total = 0
    for thing in things:
        if group and (len(group) == _ROWS or total + size(thing) > most):
            yield group
            group, total = [], 0
        group.append(thing)
        total += size(thing)
    if group:
        yield group
