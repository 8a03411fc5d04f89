"""Train word vectors with patchword and with gensim on the same text; compare words per second and quality.

python benchmarks/word_vectors.py TEXT --threads 2 --save benchmarks/results/word_vectors.json

Both use the same words, threads, width, window, negatives, subsampling, epochs and initial learning rate. Counting the
words is not timed; training is, and for patchword also the conversion of words to ids. CPU time counts only this
process, so its ratio also holds on a busy machine. Analogies and similarities use gensim's data sets and scores.

gensim is trained twice. Training from a file is faster, but there each thread lowers the learning rate by its own part
of the text only: with two threads and one epoch the rate ends at half of its initial value instead of 0, which helps on
a short text. From sentences the rate falls to 0, as ours does: compare the quality with that. Each similarity is the
mean over the seeds; the value of each seed is listed too, because they differ.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import gensim
from gensim.models import KeyedVectors, Word2Vec
from gensim.models.word2vec import LineSentence
from gensim.test.utils import datapath

from patchword.core.device import machine, pick_device
from patchword.data.progress import no_progress
from patchword.data.text.corpus.word_counts import Vocabulary, number_words, word_splitter
from patchword.data.text.tokenizers.vocabulary_training import texts_in
from patchword.recipes.vectors.words_training import WordVectorOptions, learn_numbers

SHOWN = ("king", "france", "water", "music")
Found = tuple[KeyedVectors, dict[str, float]]
Trainer = Callable[[Path, WordVectorOptions], Found]


def write_sentences(files: list[Path], path: Path) -> None:
    """Write one sentence per line, the format that both libraries read."""
    cut = word_splitter("words")
    with path.open("w", encoding="utf-8") as file:
        file.writelines(" ".join(words) + "\n" for text in texts_in(files, no_progress) if (words := cut(text)))


def timed(learn: Callable[[], Any], words: int) -> dict[str, float]:
    wall, processor = time.perf_counter(), time.process_time()
    learn()
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    return {
        "seconds": round(wall, 1),
        "words_per_second": round(words / wall),
        "words_per_processor_second": round(words / processor),
    }


def ours(path: Path, options: WordVectorOptions) -> Found:
    cut = word_splitter("spaces")
    with path.open(encoding="utf-8") as file:
        vocabulary = Vocabulary.count(file, cut, options.least)
    found = KeyedVectors(options.width)

    def learn() -> None:
        with path.open(encoding="utf-8") as file:
            numbers = number_words(file, cut, vocabulary)
        vectors = learn_numbers(vocabulary, numbers, options).vectors
        found.add_vectors(list(vectors.words), vectors.vectors)

    return found, timed(learn, vocabulary.total * options.epochs)


def theirs(path: Path, options: WordVectorOptions, source: Callable[[str], dict[str, Any]]) -> Found:
    model = Word2Vec(
        vector_size=options.width,
        window=options.window,
        negative=options.negatives,
        sg=int(options.kind == "skip-gram"),
        workers=options.threads,
        min_count=options.least,
        sample=options.sample,
        alpha=options.first_rate,
        seed=options.seed,
    )
    model.build_vocab(**source(str(path)))
    total, lines = model.corpus_total_words, model.corpus_count

    def learn() -> None:
        model.train(**source(str(path)), total_examples=lines, total_words=total, epochs=options.epochs)

    words = sum(model.wv.get_vecattr(word, "count") for word in model.wv.index_to_key)
    return model.wv, timed(learn, words * options.epochs)


TRAINERS: dict[str, Trainer] = {
    "patchword": ours,
    "gensim, from sentences": partial(theirs, source=lambda path: {"corpus_iterable": LineSentence(path)}),
    "gensim, from a file": partial(theirs, source=lambda path: {"corpus_file": path}),
}


def quality(vectors: KeyedVectors) -> dict[str, Any]:
    return {
        "analogies": round(vectors.evaluate_word_analogies(datapath("questions-words.txt"))[0], 4),
        "wordsim353": round(float(vectors.evaluate_word_pairs(datapath("wordsim353.tsv"))[1][0]), 4),
        "simlex999": round(float(vectors.evaluate_word_pairs(datapath("simlex999.txt"))[1][0]), 4),
        "near": {word: [name for name, _ in vectors.most_similar(word, topn=5)] for word in SHOWN if word in vectors},
    }


def over_seeds(train: Trainer, path: Path, options: WordVectorOptions, seeds: int) -> dict[str, Any]:
    """Means of speeds and scores over the seeds, the scores of each seed, and the nearest words of the first seed."""
    trained = (train(path, replace(options, seed=seed)) for seed in range(seeds))
    runs = [{**speed, **quality(vectors)} for vectors, speed in trained]
    means = {name: fmean(run[name] for run in runs) for name in runs[0] if name != "near"}
    return {
        **{name: round(mean, 4) if mean < 1 else round(mean, 1) for name, mean in means.items()},
        "wordsim353_of_each_seed": [run["wordsim353"] for run in runs],
        "simlex999_of_each_seed": [run["simlex999"] for run in runs],
        "near": runs[0]["near"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--kind", default="skip-gram")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--width", type=int, default=100)
    parser.add_argument("--window", type=int, default=5)
    parser.add_argument("--negatives", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--save", type=Path)
    given = parser.parse_args()
    chosen = {name: getattr(given, name) for name in ("kind", "width", "window", "negatives", "epochs", "threads")}
    options, result = WordVectorOptions(**chosen), {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text.txt"
        write_sentences(given.files, path)
        for name, train in TRAINERS.items():
            result[name] = over_seeds(train, path, options, given.seeds)
            print(name, json.dumps(result[name]), flush=True)
    report = {
        "command": f"python benchmarks/word_vectors.py TEXT --kind {options.kind} --threads {options.threads}"
        f" --epochs {options.epochs} --seeds {given.seeds}",
        "text": ", ".join(file.name for file in given.files),
        "settings": {**chosen, "seeds": given.seeds},
        **result,
        "ratio": {name: compared(result["patchword"], result[name]) for name in TRAINERS if name != "patchword"},
        "machine": {**machine(pick_device("cpu")), "gensim": gensim.__version__},
    }
    print(json.dumps(report["ratio"]))
    if given.save:
        kept = json.loads(given.save.read_text()) if given.save.is_file() else {}
        given.save.write_text(json.dumps(kept | {options.kind: report}, indent=2) + "\n")


def compared(found: dict[str, Any], other: dict[str, Any]) -> dict[str, float]:
    names = ("words_per_second", "words_per_processor_second")
    return {name: round(found[name] / other[name], 3) for name in names}


if __name__ == "__main__":
    main()
