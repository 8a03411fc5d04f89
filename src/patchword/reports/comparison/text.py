"""A comparison of text models: published, counted and measured figures, as tables and figures."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from patchword.analysis.published.comparison import APART
from patchword.analysis.published.text import TASKS
from patchword.analysis.published.text_comparison import Condition, TextRow
from patchword.reports.comparison import text_scatter
from patchword.reports.comparison.comparison import MARK, Comparison, Figures, Sheet, printed, rate
from patchword.timing.texts import TextSetting

COUNTED = (
    "model",
    "params (M), published",
    "params (M), counted",
    "MACs per token (M), counted",
    "float32 (MB), counted",
    "int8 (MB), counted",
)
LEFT = ("model",)


@dataclass(frozen=True)
class TextComparison(Comparison):
    """Rows, and the conditions of their measurement. settings: empty if nothing was measured."""

    rows: Sequence[TextRow]
    settings: Sequence[TextSetting]
    machine: dict[str, Any]
    title: str = "Text models: published, counted, measured"

    @property
    def tokens(self) -> int:
        return self.rows[0].tokens

    def conditions(self) -> list[Condition]:
        """Return the conditions for which some row has a speed."""
        return [
            condition
            for setting in self.settings
            for condition in setting.conditions()
            if any(condition in row.speeds for row in self.rows)
        ]

    def sheets(self) -> list[Sheet]:
        """Return the counts; the scores of models that have one; the speeds, if any were measured."""
        found = [Sheet(COUNTED, LEFT, [self._counted(row) for row in self.rows])]
        if scored := [self._scores(row) for row in self.rows if row.published.scores]:
            found.append(Sheet(["model", *(f"{task} (%), published" for task in TASKS)], LEFT, scored))
        if conditions := self.conditions():
            rates = [f"{condition}, {unit}/s" for condition in conditions for unit in ("tokens", "sentences")]
            lines = [self._measured(row, conditions) for row in self.rows]
            found.append(Sheet(["model", *rates, "int8 file (MB)"], LEFT, lines))
        return found

    def _counted(self, row: TextRow) -> list[str]:
        return [
            row.model,
            self._cited(printed(row.published.parameters, bool(row.mark())), row.published.source),
            f"{row.parameters / 1e6:.2f}",
            f"{row.macs / row.tokens / 1e6:.2f}",
            f"{row.float32 / 1e6:.1f}",
            f"{row.int8 / 1e6:.1f}",
        ]

    def _scores(self, row: TextRow) -> list[str]:
        scores = map(row.published.score, TASKS)
        return [row.model, *(self._cited(score.printed(), score.source) if score else "" for score in scores)]

    def _cited(self, figure: str, source: str) -> str:
        return f"{figure} [{self.sources().index(source) + 1}]" if source else figure

    def _measured(self, row: TextRow, conditions: Sequence[Condition]) -> list[str]:
        cells = [row.model]
        for condition in conditions:
            if speed := row.speeds.get(condition):
                cells += [rate(speed.rate * row.tokens), rate(speed.rate)]
            else:
                cells += ["failed" if condition in row.failures else "-", ""]
        return [*cells, f"{row.int8_file / 1e6:.1f}" if row.int8_file else ""]

    def notes(self) -> list[str]:
        notes = [
            f"counted for a text of {self.tokens} tokens; GPT, GPT-2 and Grover with their LM head, the others "
            "without; float32 and int8: the size of a checkpoint",
        ]
        if self.settings:
            how = f"inference on random texts of {self.tokens} tokens, no padding, the median of repeated calls"
            compiled = ", compiled" if any(setting.compiled for setting in self.settings) else ""
            notes.append(f"speeds: {how}; {self._where()}, torch {self.machine['torch']}{compiled}; int8: ONNX Runtime")
        if marks := [f"{row.model}, parameters: {row.mark()}" for row in self.rows if row.mark()]:
            notes += [f"figures with {MARK} differ from the count by more than {APART:.0%}:", *marks]
        return notes + [f"{row.model}, {why}" for row in self.rows for why in _unmeasured(row)]

    def _where(self) -> str:
        processor = f"CPU ({self.machine['processor']})"
        return processor if self.machine["device"] == "cpu" else f"{processor} and {self.machine['device']}"

    def sources(self) -> list[str]:
        return list(dict.fromkeys(source for row in self.rows for source in row.published.sources()))

    def records(self) -> list[dict[str, object]]:
        return [self._record(row) for row in self.rows]

    def _record(self, row: TextRow) -> dict[str, object]:
        record: dict[str, object] = {
            "model": row.model,
            "family": row.family,
            "published_parameters_millions": row.published.parameters,
            "published_parameters_source": row.published.source,
            "parameters": row.parameters,
            "tokens": row.tokens,
            "macs": row.macs,
            "macs_per_token": row.macs / row.tokens,
            "float32_bytes": row.float32,
            "int8_bytes": row.int8,
            "int8_file_bytes": row.int8_file,
        }
        for task in TASKS:
            score, name = row.published.score(task), f"published_{_word(task)}"
            record |= {
                f"{name}_percent": score and score.value,
                f"{name}_part": score and score.part,
                f"{name}_source": score and score.source,
            }
        for condition in self.conditions():
            speed, name = row.speeds.get(condition), _word(str(condition))
            record |= {
                f"{name}_tokens_per_second": speed and round(speed.rate * row.tokens, 3),
                f"{name}_sentences_per_second": speed and round(speed.rate, 3),
            }
        return record | {"device": self._where() if row.speeds else None, "note": "; ".join(_unmeasured(row))}

    def figures(self) -> Figures:
        return text_scatter.figures(self.rows, self.conditions(), f"{self._where()}, torch {self.machine['torch']}")

    def to_json(self) -> dict[str, Any]:
        return {
            "machine": self.machine,
            "tokens": self.tokens,
            "settings": [asdict(setting) for setting in self.settings],
            "models": [row.to_json() for row in self.rows],
        }


def _unmeasured(row: TextRow) -> list[str]:
    return [*_grouped("not measured", row.left_out), *_grouped("could not be measured", row.failures)]


def _grouped(what: str, reasons: Mapping[Condition, str]) -> list[str]:
    """Return one line per reason."""
    lines: dict[str, list[str]] = {}
    for condition, why in reasons.items():
        lines.setdefault(why, []).append(str(condition))
    return [f"{'; '.join(conditions)} {what}: {why}" for why, conditions in lines.items()]


def _word(text: str) -> str:
    return "_".join("".join(letter if letter.isalnum() else " " for letter in text.lower()).split())
