"""Published figures of text models, each with its source.

Figures are as printed. A figure that could not be checked at its source is left out. Scores of different sets (dev,
test) are not comparable, so each names its set. Q8BERT is not a model of its own and has no row.
"""

from dataclasses import dataclass
from typing import Literal

MNLI, SST, GLUE, SQUAD, XNLI, XNLI_ZH = "MNLI-m", "SST-2", "GLUE", "SQuAD 1.1 F1", "XNLI en", "XNLI zh"
TASKS = (GLUE, MNLI, SST, SQUAD, XNLI, XNLI_ZH)

BERT = "Devlin et al. 2018 (arXiv 1810.04805)"
BERT_README = f"{BERT}, authors' README"
BOARD = f"{BERT}, GLUE leaderboard as repeated by ERNIE's authors' README"
MULTILINGUAL = f"{BERT}, authors' multilingual.md"
RUN_GLUE = "Hugging Face's run_glue of bert-base-cased, README of the text classification example"
TURC = "Turc et al. 2019 (arXiv 1908.08962), authors' README"
ROBERTA = "Liu et al. 2019 (arXiv 1907.11692), authors' README"
ALBERT = "Lan et al. 2019 (arXiv 1909.11942), authors' README, version 2"
DISTILBERT = "Sanh et al. 2019 (arXiv 1910.01108), authors' README"
HUGGING_FACE = "Hugging Face's documentation, list of pretrained models"
TINYBERT = "Jiao et al. 2019 (arXiv 1909.10351), as listed by Papers with Code"
MOBILEBERT = "Sun et al. 2020 (arXiv 2004.02984)"
ERNIE = "Sun et al. 2019 (arXiv 1904.09223), authors' README"
XLM = "Lample and Conneau 2019 (arXiv 1901.07291), authors' README"
GPT2 = "Radford et al. 2019, authors' model card"


@dataclass(frozen=True)
class Score:
    """One published score, in percent. MNLI-m: accuracy on the matched part. GLUE: the mean of its tasks."""

    task: str
    value: float
    part: Literal["dev", "test"]
    source: str

    def printed(self) -> str:
        return f"{self.value:.1f} {self.part}" if self.value == round(self.value, 1) else f"{self.value:g} {self.part}"


@dataclass(frozen=True)
class PublishedText:
    """The published figures of one model."""

    parameters: float | None = None  # millions
    source: str = ""  # of the parameters
    scores: tuple[Score, ...] = ()

    def score(self, task: str) -> Score | None:
        return next((score for score in self.scores if score.task == task), None)

    def sources(self) -> list[str]:
        return [source for source in (self.source, *(score.source for score in self.scores)) if source]


def _of(source: str, part: Literal["dev", "test"], **scores: float) -> tuple[Score, ...]:
    names = {"glue": GLUE, "mnli": MNLI, "sst": SST, "squad": SQUAD, "xnli": XNLI, "xnli_zh": XNLI_ZH}
    return tuple(Score(names[name], value, part, source) for name, value in scores.items())


# The multilingual models have more parameters than published, since their embedding table is larger.
_BERT = {
    "bert-tiny": PublishedText(scores=_of(TURC, "test", glue=64.2, mnli=70.2, sst=83.2)),
    "bert-mini": PublishedText(scores=_of(TURC, "test", glue=65.8, mnli=74.8, sst=85.9)),
    "bert-small": PublishedText(scores=_of(TURC, "test", glue=71.2, mnli=77.6, sst=89.7)),
    "bert-medium": PublishedText(scores=_of(TURC, "test", glue=73.5, mnli=80.0, sst=89.6)),
    "bert-base": PublishedText(
        110,
        BERT_README,
        (*_of(BOARD, "test", glue=78.3, mnli=84.6, sst=93.5), *_of(BERT_README, "dev", squad=88.41)),
    ),
    "bert-large": PublishedText(
        340, BERT_README, (*_of(BOARD, "test", mnli=86.7, sst=94.9), *_of(BERT_README, "dev", squad=90.87))
    ),
    "bert-base-cased": PublishedText(110, BERT_README, _of(RUN_GLUE, "dev", mnli=83.91, sst=92.32)),
    "bert-large-cased": PublishedText(340, BERT_README),
    "bert-base-multilingual": PublishedText(110, MULTILINGUAL, _of(DISTILBERT, "test", xnli_zh=69.1)),
    "bert-base-multilingual-uncased": PublishedText(
        110, MULTILINGUAL, _of(MULTILINGUAL, "test", xnli=81.4, xnli_zh=63.8)
    ),
    "bert-base-chinese": PublishedText(110, MULTILINGUAL, _of(MULTILINGUAL, "test", xnli_zh=77.2)),
}

_ROBERTA = {
    "roberta-base": PublishedText(125, ROBERTA, _of(ROBERTA, "dev", mnli=87.6, sst=94.8)),
    "roberta-large": PublishedText(355, ROBERTA, _of(ROBERTA, "dev", mnli=90.2, sst=96.4, squad=94.6)),
}

_ALBERT = {
    "albert-base": PublishedText(scores=_of(ALBERT, "dev", mnli=84.6, sst=92.9, squad=90.2)),
    "albert-large": PublishedText(scores=_of(ALBERT, "dev", mnli=86.5, sst=94.9, squad=91.8)),
    "albert-xlarge": PublishedText(scores=_of(ALBERT, "dev", mnli=87.9, sst=95.4, squad=92.9)),
    "albert-xxlarge": PublishedText(scores=_of(ALBERT, "dev", mnli=90.6, sst=96.8, squad=94.6)),
}

_COMPRESSED = {
    "distilbert-base": PublishedText(
        66, HUGGING_FACE, _of(DISTILBERT, "dev", glue=77.0, mnli=82.1, sst=91.3, squad=86.9)
    ),
    "distilbert-base-multilingual": PublishedText(scores=_of(DISTILBERT, "test", xnli_zh=64.0)),
    "tinybert-4-312": PublishedText(14.5, TINYBERT, _of(TINYBERT, "test", mnli=82.5)),
    "tinybert-6-768": PublishedText(67, TINYBERT),
    "mobilebert": PublishedText(
        25.3,
        f"{MOBILEBERT}, table 4, second hand",
        (
            *_of(f"{MOBILEBERT}, table 4, second hand", "test", mnli=83.3, sst=92.8),
            *_of(f"{MOBILEBERT}, abstract", "test", glue=77.7),
            *_of(f"{MOBILEBERT}, abstract", "dev", squad=90.0),
        ),
    ),
}

_OTHERS = {
    "ernie-base": PublishedText(scores=_of(ERNIE, "test", xnli_zh=78.4)),
    "xlm-tlm-xnli15": PublishedText(scores=_of(XLM, "test", xnli=85.0, xnli_zh=76.5)),
    "gpt": PublishedText(scores=_of(f"Radford et al. 2018, as cited by {BERT_README}", "test", mnli=82.2)),
    "gpt2-small": PublishedText(124, GPT2),
    "gpt2-medium": PublishedText(355, GPT2),
    "gpt2-large": PublishedText(774, GPT2),
    "gpt2-xl": PublishedText(1500, GPT2),
}

PUBLISHED_TEXTS: dict[str, PublishedText] = {**_BERT, **_ROBERTA, **_ALBERT, **_COMPRESSED, **_OTHERS}
