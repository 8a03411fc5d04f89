"""Count the retired words in the source, the documentation and the project's pages.

    python tools/retired_words.py           one line per file and word
    python tools/retired_words.py --lines   every line, with its number

The exit code is 1 if a word is found. Python files are read token by token: identifiers, strings and comments. CLI help
and recipe descriptions are strings of the source. Markdown files are read as text.
"""

import argparse
import io
import keyword
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
FILES = ("src/**/*.py", "docs/**/*.md", "*.md", "benchmarks/**/*.py", "benchmarks/**/*.md", "mkdocs.yml")
# The log of changes names what was renamed.
SKIPPED = ("CHANGELOG.md",)

# Regular expressions and the word to use instead. A word ends where its letters end: `told` is found in `told_once`
# and not in `untold`. WORDS are searched everywhere and in any case; NAMES are searched in identifiers and in code
# between backticks, in their own case, because some of them are words of plain English.
WORDS = {
    r"told": "message, log, report, given",
    r"mend(?:s|ed|ing|able)?": "fix",
    r"twins?": "reference, counterpart",
    r"pictures?": "image (input), figure (output)",
    r"no number": "non-finite",
    r"(?:number|numbers) that (?:is|are) none": "non-finite",
    r"who meets whom": "which tokens attend to which",
    r"meetings?": "attention pattern",
    r"contenders?": "candidate",
    r"races?(?! conditions?)": "benchmark",
    r"steady": "bucketed",
    r"watche[rd]s?": "has hooks",
    r"alike": "equal, matches the reference",
    r"entrances?": "stem, embedding",
    r"recorded graphs?": "CUDA graph",
    r"right answers?": "accuracy",
    r"line an epoch": "line per epoch",
    r"whence": "from where",
    r"whoever": "the user, the caller",
    r"nobody": "no user, no process",
}
NAMES = {
    r"plain_\w+": "reference_*",
    r"Rows": "Packed",
    r"(?<!_)rows=": "packed=, sample_names=",
    r"Wish(?:es)?": "*Options",
    r"Asked": "*Options",
    r"Sparing": "OomRetry",
    r"Parted": "PeerLostError",
    r"Finish(?:es)?": "Timing",
    r"Guesses": "TokenLosses",
    r"Lazily": "LazySequence",
    r"Everything": "Full",
    r"ALONE": "SINGLE",
    r"FirstPiece": "FirstMicrobatchGraph",
    r"TextGoal": "TextTaskSpec",
    r"(?:Word|Sentence|Vector|Token)Head": "LMHead, SequenceHead, EmbeddingHead, TokenClassificationHead",
    r"(?:Waves|Trial)": "test_inputs, SelfTest",
    r"(?:normed_product|product_onto)": "layer_norm_linear, linear_residual",
    r"(?:may_have_kernel|is_many|try_all|learns)": "is_cuda, fills_gpu, run_self_tests, needs_grad",
    r"(?:met_share|go_on|guard_rewind)": "density, resume, loss_spike",
}


class Allowed(NamedTuple):
    """A word that stays: in files that match `files`, where the text around it matches `where`."""

    word: str
    files: str
    where: str
    reason: str


# A row for a key of weight files, or for a field of files that earlier versions wrote.
ALLOWED = (
    Allowed("entrance", "src/patchword/core/tensor_files.py", r"entrance", "a key of weight files of earlier versions"),
    Allowed("pictures", "src/patchword/inspection/robustness.py", r"pictures", "a key of robustness.json before"),
    Allowed("told", "src/patchword/inspection/saved_sharpness.py", r"told", "a key of sharpness.json before"),
    Allowed("pictures", "src/patchword/data/shards/manifest.py", r"pictures", "a value in shards.json before"),
    Allowed("pictures", "src/patchword/data/shards/image_contents.py", r"pictures", "part of the hash of shards"),
    Allowed("rows=", "src/patchword/weights/names/*", r"rows=", "the rows of a table of names, not packed text"),
    Allowed("twins", "docs/published-tables.md", r"Twins-SVT", "the name of a model"),
    Allowed("rows=", "src/patchword/kernels/*", r"rows=", "the rows of a matrix, not packed text"),
)


class Found(NamedTuple):
    path: str
    line: int
    word: str
    instead: str
    text: str


def spans(path: Path, text: str) -> Iterator[tuple[int, str, str]]:
    """The texts to search: line, kind ("name" or "text"), text. All lines of a file that is not Python."""
    if path.suffix != ".py":
        yield from ((number, "text", line) for number, line in enumerate(text.splitlines(), 1))
        return
    before = ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and not keyword.iskeyword(token.string):
            # A name with the dot before it, and `rows=` with its sign.
            rest = token.line[token.end[1] : token.end[1] + 2]
            sign = "=" if rest[:1] == "=" and rest != "==" else ""
            yield token.start[0], "name", ("." if before == "." else "") + token.string + sign
        elif token.type == tokenize.COMMENT or token.type == tokenize.STRING or "FSTRING_MIDDLE" in token_name(token):
            for offset, line in enumerate(token.string.splitlines()):
                yield token.start[0] + offset, "text", line
        before = token.string


def token_name(token: tokenize.TokenInfo) -> str:
    return tokenize.tok_name[token.type]


def compiled(words: Iterable[str], flags: int = 0) -> re.Pattern[str]:
    """One pattern for all words, since most lines hold none. The group that matched is the word."""
    groups = "|".join(f"(?P<w{number}>{word})" for number, word in enumerate(words))
    return re.compile(rf"(?<![A-Za-z])(?:{groups})(?:(?<==)|(?![A-Za-z]))", flags)


ANY_WORD, ANY_NAME = compiled(WORDS, re.IGNORECASE), compiled(NAMES)
INSTEAD = {pattern: list(words.items()) for pattern, words in ((ANY_WORD, WORDS), (ANY_NAME, NAMES))}
CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")  # begins a word inside a name: `RowsTold` holds `told`
CODE = re.compile(r"`[^`]+`")


def search(path: str, text: str) -> list[Found]:
    """The retired words in the text of the file `path`, which is relative to the repository."""
    if not ANY_WORD.search(CAPITAL.sub("_", text)) and not ANY_NAME.search(text):
        return []
    found = []
    for line, kind, piece in spans(Path(path), text):
        searched = [(ANY_WORD, CAPITAL.sub("_", piece) if kind == "name" else piece)]
        searched += [(ANY_NAME, code) for code in ([piece] if kind == "name" else CODE.findall(piece))]
        for pattern, part in searched:
            for match in pattern.finditer(part):
                word, instead = INSTEAD[pattern][int(str(match.lastgroup)[1:])]
                if not is_allowed(path, match, part):
                    found.append(Found(path, line, word, instead, piece.strip()))
    return found


def is_allowed(path: str, match: re.Match[str], text: str) -> bool:
    """True if a row of ALLOWED covers this match."""
    for row in ALLOWED:
        if fnmatch(path, row.files) and re.fullmatch(row.word, match[0], re.IGNORECASE):
            covered = re.finditer(row.where, text)
            if any(place.start() <= match.start() and match.end() <= place.end() for place in covered):
                return True
    return False


def search_all(root: Path = ROOT) -> list[Found]:
    """The retired words of the whole repository."""
    found = []
    for path in sorted({path for pattern in FILES for path in root.glob(pattern)}):
        name = path.relative_to(root).as_posix()
        if name not in SKIPPED:
            found += search(name, path.read_text(encoding="utf-8"))
    return found


def main() -> int:
    """Print the counts, or the lines."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--lines", action="store_true", help="print every line instead of one count per file and word")
    parser.add_argument("files", nargs="*", help="only files whose path contains one of these texts")
    options = parser.parse_args()
    found = [one for one in search_all() if not options.files or any(part in one.path for part in options.files)]
    if options.lines:
        for one in found:
            print(f"{one.path}:{one.line}: {one.word} -> {one.instead}: {one.text}")
    else:
        for (path, word), count in sorted(Counter((one.path, one.word) for one in found).items()):
            print(f"{count:5} {path}: {word}")
    print(f"{len(found)} retired words in {len({one.path for one in found})} files")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
