"""The card of a model of the zoo, card.json: what it is, from which data it was made, how, and how well it does."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from patchword.core.errors import UserError
from patchword.core.files import read_json
from patchword.zoo.entries import CARD

LOWER_IS_BETTER = ("perplexity", "loss")


@dataclass(frozen=True)
class Score:
    """The score of the weights as they are carried. before: of the weights of the run, in float32."""

    metric: str
    part: str
    value: float
    before: float
    examples: int | None = None

    def text(self) -> str:
        """Return the score as it is printed: shares as percentages."""
        return format_score(self.metric, self.value)


@dataclass(frozen=True)
class Sample:
    """A few real examples that are carried in the folder `sample`, with the score of the weights on them.

    settings: fields of the recipe that read the sample; files are relative to the entry.
    """

    settings: Mapping[str, str]
    licence: str
    source: str
    metric: str
    value: float
    examples: int | None = None


@dataclass(frozen=True)
class ZooCard:
    """The facts about a model of the zoo.

    kind: the recipe kind, or word-vectors. model: its name in the registry. task: what it does, in a few words. size:
    of the weight file in bytes. data, data_licence: what it was trained on. licence: of the weights. command, seed:
    they train it again. made: the machine and the time. limits: what it cannot do. uses: commands that show it.
    """

    name: str
    task: str
    kind: str
    model: str
    parameters: int
    dtype: str
    size: int
    data: str
    data_licence: str
    licence: str
    command: str
    seed: int
    made: str
    patchword: str
    limits: str
    score: Score
    sample: Sample
    uses: tuple[str, ...]


def format_score(metric: str, value: float) -> str:
    """Format a score: shares as percentages, others, such as BLEU or perplexity, as numbers.

    >>> format_score("accuracy", 0.9421), format_score("bleu", 31.25)
    ('94.2% accuracy', '31.2 bleu')
    """
    is_share = metric not in ("bleu", *LOWER_IS_BETTER)
    return f"{value:.1%} {metric}" if is_share else f"{value:.1f} {metric}"


def is_worse(metric: str, value: float, expected: float, slack: float) -> bool:
    """Return True if a score is worse than expected by more than the slack, which is relative for a perplexity."""
    if metric in LOWER_IS_BETTER:
        return value > expected * (1 + slack)
    return value < expected - (slack * 100 if metric == "bleu" else slack)


def read_card(folder: Path) -> ZooCard:
    """Read the card of an entry; a field that is missing, empty or unknown is an error."""
    found = read_json(folder / CARD)
    try:
        parts = {"score": Score(**found["score"]), "sample": Sample(**found["sample"])}
        card = ZooCard(**{**found, **parts, "uses": tuple(found["uses"])})
    except (KeyError, TypeError) as error:
        raise UserError(f"{folder / CARD} is not a card of the zoo", got=str(error)) from None
    empty = [one.name for one in fields(card) if getattr(card, one.name) in ("", None, ())]
    if empty:
        raise UserError(f"{folder / CARD} is not complete", expected=f"a value of {', '.join(empty)}")
    return card
