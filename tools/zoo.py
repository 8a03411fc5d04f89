"""Add a trained model to the zoo: cast its weights, score them again, and write its card.

    python tools/zoo.py sample runs/digits-vit --count 40 --out sample
    python tools/zoo.py add runs/digits-vit --name digits-vit --sample data=sample/labels.csv
    python tools/zoo.py vectors words.txt --name word-vectors --sample analogies=analogies.txt

The facts that a run does not know (data, licences, limits, commands to show it) are in packages/zoo/cards.yaml under
the name of the model. The same run gives the same bytes.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor

import patchword
from patchword.core.errors import UserError
from patchword.core.files import make_folder, read_json, write_json, write_text
from patchword.core.formats.safe_yaml import parse_yaml
from patchword.core.tensor_files import read_tensors, write_tensors
from patchword.data.text.formats.vector_folder import WORDS as VECTOR_WORDS
from patchword.data.text.formats.vector_folder import write_vector_folder
from patchword.data.text.tokenizers.loading import NAMES
from patchword.recipes.elmo.run import WORDS
from patchword.recipes.results.calibration import CALIBRATION
from patchword.recipes.run import Run
from patchword.recipes.translation.run import TARGET
from patchword.recipes.vectors.words import WordVectors
from patchword.weights.io.cards import card_from_dict
from patchword.zoo.card import Sample, Score, ZooCard, read_card
from patchword.zoo.entries import CARD, OWN
from zoo_facts import PACKAGE, check_command, facts_of, without_folders
from zoo_page import page
from zoo_samples import copy_sample, sample_images
from zoo_scores import ANALOGIES, SAMPLE, WORD_VECTORS, Measured, analogy_score, full_score, measured, sample_score

HOMES = {"zoo": PACKAGE / "src" / "patchword_zoo", "patchword": OWN}
DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}
KEPT = (
    *("config.json", *NAMES, "merges.txt", "tokenizer_config.json", "special_tokens_map.json"),
    *(TARGET, WORDS, VECTOR_WORDS, CALIBRATION, "colors.json"),
)


def add(run: Path, name: str, sample: Sequence[str], replace: bool = False, data: Sequence[str] = ()) -> Path:
    """Add a finished run. Return the folder of the entry. data: where the data of the run is on this machine"""
    found, facts = Run(run), facts_of(name)
    check_command(facts["command"], found)
    with tempfile.TemporaryDirectory() as scratch:
        staged = Path(scratch) / name
        _stage(found, staged, DTYPES[facts["dtype"]])
        before, after = _saved_score(found, data), full_score(staged, data)
        write_text(staged / "recipe.yaml", yaml.safe_dump(without_folders(_recipe(found)), sort_keys=False))
        card = card_from_dict(read_json(staged / "config.json"))
        known = {"kind": found.recipe().kind, "model": card.model, "seed": found.recipe().seed, "made": _made(found)}
        known["made"] += f", {facts['beside']}" if "beside" in facts else ""
        return _finish(staged, name, facts, {**known, **_sizes(staged)}, (before, after), sample, replace)


def add_vectors(file: Path, name: str, sample: Sequence[str], replace: bool = False) -> Path:
    """Add a file of word vectors, which are scored on the analogies of the sample."""
    facts, vectors = facts_of(name), WordVectors.read(file)
    analogies = dict(part.partition("=")[::2] for part in sample)[ANALOGIES]
    with tempfile.TemporaryDirectory() as scratch:
        staged = Path(scratch) / name
        write_vector_folder(staged, vectors.words, vectors.vectors, DTYPES[facts["dtype"]])
        scores = analogy_score(vectors, Path(analogies)), analogy_score(WordVectors.read(staged), Path(analogies))
        known = {"kind": WORD_VECTORS, "model": f"{len(vectors):,} words, width {vectors.width}", "seed": facts["seed"]}
        known = {**known, "made": facts["made"], **_sizes(staged)}
        return _finish(staged, name, facts, known, scores, sample, replace)


def cast(tensors: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """Convert matrices, kernels and tables; biases, norms and running statistics are few and stay float32."""
    return {
        name: tensor.to(dtype if tensor.ndim > 1 else torch.float32) if tensor.is_floating_point() else tensor
        for name, tensor in tensors.items()
    }


def _stage(run: Run, folder: Path, dtype: torch.dtype) -> None:
    """Copy what a model needs, with its weights in another dtype; its recipe is still that of the run."""
    make_folder(folder)
    for kept in (*KEPT, "recipe.yaml"):
        source = run.folder / kept
        if source.is_dir():
            shutil.copytree(source, folder / kept)
        elif source.is_file():
            shutil.copyfile(source, folder / kept)
    tensors, metadata = read_tensors(run.folder / "model.safetensors")
    write_tensors(folder / "model.safetensors", cast(tensors, dtype), metadata)


def _finish(
    staged: Path,
    name: str,
    facts: Mapping[str, Any],
    known: Mapping[str, Any],
    scores: tuple[Measured, Measured],
    sample: Sequence[str],
    replace: bool,
) -> Path:
    """Copy the sample, score it, write the card, and move the entry to its place."""
    target = HOMES[facts.get("home", "zoo")] / name
    if target.exists() and not replace:
        raise UserError(f"{target} exists already", hint="--replace replaces it")
    before, after = scores
    settings = copy_sample(sample, staged / SAMPLE)
    on_sample = sample_score(staged, known["kind"], settings)
    origin = facts["sample"]
    card = ZooCard(
        name=name,
        **{field: facts[field] for field in ("task", "dtype", "data", "data_licence", "licence", "command", "limits")},
        **known,
        patchword=patchword.__version__,
        uses=tuple(facts["uses"]),
        score=Score(after.metric, after.part, after.value, before.value, after.examples),
        sample=Sample(
            settings, origin["licence"], origin["source"], on_sample.metric, on_sample.value, on_sample.examples
        ),
    )
    write_json(staged / CARD, asdict(card))
    write_text(staged / "README.md", page(read_card(staged)))
    if target.exists():
        shutil.rmtree(target)
    make_folder(target.parent)
    shutil.copytree(staged, target)
    return target


def _saved_score(run: Run, data: Sequence[str]) -> Measured:
    """Return the score that the run was given after training, or that of now."""
    saved = run.folder / "evaluation.json"
    return measured(run.recipe().kind, read_json(saved)) if saved.is_file() else full_score(run.folder, data)


def _sizes(folder: Path) -> dict[str, Any]:
    """Running statistics of norms are no parameters; the weight file of a model has them, that of vectors has none."""
    file = folder / "model.safetensors"
    if (folder / "config.json").is_file():
        count = sum(parameter.numel() for parameter in patchword.load(folder).parameters())
    else:
        count = sum(tensor.numel() for tensor in read_tensors(file)[0].values())
    return {"parameters": count, "size": file.stat().st_size}


def _made(run: Run) -> str:
    machine, metrics = run.machine(), run.metrics()
    seconds = sum(row.get("seconds", 0.0) for row in metrics[-1:])
    device = machine.get("device", "an unknown device")
    where = machine.get("processor", "CPU") if device == "cpu" else device
    return f"{seconds / 60:.0f} minutes on {where}" if seconds >= 60 else f"{seconds:.0f} s on {where}"


def _recipe(run: Run) -> dict[str, Any]:
    return dict(parse_yaml((run.folder / "recipe.yaml").read_text(encoding="utf-8")))


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, what in (("add", "a run"), ("vectors", "a file of word vectors")):
        adds = verbs.add_parser(verb, help=f"add {what}")
        adds.add_argument("source", type=Path, metavar="RUN" if verb == "add" else "FILE")
        adds.add_argument("--name", required=True, help="the name after zoo:")
        adds.add_argument("--sample", action="append", required=True, metavar="FIELD=VALUE", help="reads the sample")
        if verb == "add":
            where = "where the data of the run is on this machine, e.g. text=FILE"
            adds.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help=where)
        adds.add_argument("--replace", action="store_true", help="replace the entry of this name")
    samples = verbs.add_parser("sample", help="write images of a run's test set as a sample")
    samples.add_argument("source", type=Path, metavar="RUN")
    samples.add_argument("--count", type=int, default=40)
    samples.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args(words)
    if asked.verb == "sample":
        print(sample_images(asked.source, asked.count, asked.out))
        return
    if asked.verb == "add":
        print(add(asked.source, asked.name, asked.sample, asked.replace, asked.set))
        return
    print(add_vectors(asked.source, asked.name, asked.sample, asked.replace))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(f"error: {error}")
