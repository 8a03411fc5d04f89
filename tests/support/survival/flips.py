"""Flips bits of the files of a run, and counts what opening the run makes of it."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from patchword.api.training import train_recipe
from patchword.core.seal.manifest import SEAL, read_seal
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.recipes import find_recipe
from support.material import QUICK, silent, tiny_recipe
from support.survival.verbs import Opened
from support.tiny_texts import QUICK as QUICK_TEXTS
from support.tiny_texts import write_table

MODEL = ("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt")
EVERY_BIT = 8192  # bytes of a file of which every bit is flipped


def image_run(folder: Path) -> Path:
    """Return a finished run of an image classifier."""
    train_recipe(tiny_recipe(*QUICK), folder / "images", silent())
    return folder / "images"


def text_run(folder: Path) -> Path:
    """Return a finished run of a text classifier, with its tokenizer."""
    rows = [(f"a {word} film was seen", word) for word in ("good", "bad") * 16]
    table = write_table(folder / "texts.csv", rows)
    Tokenizer.train_on([text for text, _ in rows], vocabulary=60).save(folder / "words")
    given = [f"train={table}", f"test={table}", f"tokenizer={folder / 'words'}"]
    train_recipe(find_recipe("classify-text").with_settings([*QUICK_TEXTS, *given]), folder / "text", silent())
    return folder / "text"


def random_flips(folder: Path, count: int, seed: int = 0) -> Iterator[tuple[str, int]]:
    """Yield files of the model and bits in them."""
    generator, names = random.Random(seed), [name for name in MODEL if (folder / name).is_file()]
    for _ in range(count):
        name = generator.choice(names)
        yield name, generator.randrange(8 * (folder / name).stat().st_size)


def small_file_flips(folder: Path, per_file: int = 8 * EVERY_BIT, seed: int = 0) -> Iterator[tuple[str, int]]:
    """Yield every bit of the small sealed files and of the seal, or as many of each as `per_file`, at random."""
    generator, seal = random.Random(seed), read_seal(folder)
    assert seal is not None
    for name in sorted({*seal.files, SEAL}):
        bits = range(8 * (folder / name).stat().st_size)
        if len(bits) <= 8 * EVERY_BIT:
            yield from ((name, bit) for bit in generator.sample(bits, min(per_file, len(bits))))


def outcomes(
    folder: Path, flips: Iterator[tuple[str, int]], opened: Mapping[str, Opened], seed: int = 0
) -> Counter[str]:
    """Return how many flips were named, silent, or ended in another error; each is opened in one way, at random."""
    generator, found = random.Random(seed), Counter[str]()
    for name, bit in flips:
        path, whole = folder / name, (folder / name).read_bytes()
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        verb = generator.choice([*opened])
        try:
            said = opened[verb](folder)
        except Exception as error:
            found[f"{verb}: {type(error).__name__} in {name}"] += 1
        else:
            found["named" if name in said else f"{verb}: {name} is {'not named' if said else 'silent'}"] += 1
        path.write_bytes(whole)
    return found
