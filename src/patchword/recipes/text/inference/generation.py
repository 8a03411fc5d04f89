"""Generates text with a trained causal model; `token_stream.py` does it token by token."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from patchword.core.errors import UserError
from patchword.data.text.formats.news import FieldTokens, prompt_ids
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.objectives.generation.beam_search import beam_search
from patchword.objectives.generation.causal import CausalSteps
from patchword.objectives.generation.sampling import Choice, Generated, Greedy, Sampling, generate
from patchword.recipes.text.inference.reader import Reader


@dataclass(frozen=True)
class GenerationOptions:
    """Options of generation. temperature: 0 is greedy. beams: beam search instead of sampling; 0 is off."""

    tokens: int = 100
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    beams: int = 0
    penalty: float = 0.6
    seed: int = 0
    samples: int = 1

    def __post_init__(self) -> None:
        drawn = self.temperature > 0 and not self.beams
        if not drawn and (self.top_k is not None or self.top_p < 1):
            how = "beams search" if self.beams else "temperature 0 is greedy decoding"
            raise UserError("nothing is sampled", expected="top-k and top-p only with sampling", got=how)
        if self.samples > 1 and not drawn and self.samples > self.beams:
            limit = f"at most {self.beams}, the number of beams" if self.beams else "1"
            raise UserError("samples", expected=limit, got=self.samples, hint="all samples would be the same")

    def choice(self) -> Choice:
        return Sampling(self.temperature, self.top_k, self.top_p, self.seed) if self.temperature > 0 else Greedy()


@dataclass(frozen=True)
class Prompt:
    """The tokens of a prompt, and the tokens that end a text. shown: the prompt as text, if it is to be shown."""

    ids: Sequence[int]
    ends: tuple[int, ...]
    shown: str = ""


@dataclass(frozen=True)
class Continuation:
    """A generated continuation of a prompt.

    text: without the prompt. score: the sum of log-probabilities. ended: True if an end token ended it, False if it
    reached the maximum length.
    """

    text: str
    tokens: int
    score: float
    ended: bool

    def to_json(self) -> dict[str, Any]:
        return vars(self)


def prompt_of(tokenizer: Tokenizer, text: str) -> Prompt:
    """Return the prompt of a text; an empty text starts after the end token."""
    ids = [*tokenizer.frame.before, *tokenizer.ids_of([text])[0].tolist()]
    ends = () if tokenizer.end is None else (tokenizer.end,)
    return Prompt(ids or ends, ends, text)


def prompt_of_news(tokenizer: Tokenizer, given: Mapping[str, str], wanted: str) -> Prompt:
    """Return the prompt that generates one field of an article from other fields."""
    tokens = FieldTokens.of(tokenizer)
    return Prompt(prompt_ids(tokenizer, tokens, given, wanted).tolist(), (tokens.end[wanted],))


def continue_text(reader: Reader, prompt: Prompt, wish: GenerationOptions) -> list[Continuation]:
    """Return as many continuations as requested; with beam search, the best first."""
    if wish.beams:
        steps = decoding_steps(reader, prompt, 1)
        found = beam_search(steps, wish.beams, wish.tokens, prompt.ends, wish.penalty)[0][: wish.samples]
    else:
        found = generate(decoding_steps(reader, prompt, wish.samples), wish.choice(), wish.tokens, prompt.ends)
    return [_read(reader.tokenizer, prompt, written) for written in found]


def behind(tokenizer: Tokenizer, prompt: Sequence[int], tokens: Sequence[int]) -> str:
    """Return the text of tokens after others; the last of those can decide on a space."""
    start, whole = tokenizer.decode(prompt), tokenizer.decode([*prompt, *tokens])
    return whole.removeprefix(start) if whole.startswith(start) else tokenizer.decode(tokens)


def decoding_steps(reader: Reader, prompt: Prompt, samples: int) -> CausalSteps:
    """Exclude special tokens, except those that end the text, and embedding rows without a vocabulary entry."""
    tokenizer = reader.tokenizer
    spare = range(tokenizer.vocabulary, int(reader.model.card.config["vocabulary"]))
    never = [*(number for number in tokenizer.specials if number not in prompt.ends), *spare]
    return CausalSteps(reader.model, [prompt.ids] * samples, never=never)


def _read(tokenizer: Tokenizer, prompt: Prompt, written: Generated) -> Continuation:
    text = behind(tokenizer, prompt.ids, written.tokens)
    return Continuation(text, len(written.tokens), written.score, written.ended)
