"""Plans which models are timed, estimates the duration, and leaves out what would take too long."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from patchword.analysis.published.comparison import Row
from patchword.analysis.published.text_comparison import Condition, TextRow
from patchword.analysis.speed import free_memory, product_rate
from patchword.core.errors import UserError
from patchword.models import REGISTRY
from patchword.timing.images import AnySetting, Setting
from patchword.timing.texts import TextSetting
from patchword.weights.export.formats import FORMATS

CALLS = 4  # one to warm up and three to measure, at the least
_START = 6.0  # seconds to start a process, roughly
_MADE = 3e7  # weights that are initialised per second
_SHARE = 0.7  # fraction of the matmul peak that models reach
_INT8 = 2.0  # how much faster integers are
_COPIES = {"int8": 4.0}  # of the float32 weights that are held at a time; 2 otherwise
_OPERATIONS = 50  # of a block, in 8 bits


@dataclass(frozen=True)
class Job:
    """One model to time with one setting. row: its index. macs: per call and batch size. start: seconds of setup"""

    row: int
    setting: AnySetting
    macs: tuple[int, ...]
    start: float

    @property
    def kind(self) -> tuple[str, str]:
        return self.setting.device, self.setting.precision

    def expected(self, rates: "Rates") -> float:
        """Return the estimated duration in seconds."""
        least = 1.2 * self.setting.seconds
        return self.start + sum(max(least, CALLS * macs / rates.of(self.kind)) for macs in self.macs)


@dataclass
class Rates:
    """Multiply-accumulates per second: an estimate first, then the best that was measured per device and precision."""

    cpu: float = field(default_factory=lambda: _SHARE * product_rate())
    seen: dict[tuple[str, str], float] = field(default_factory=dict)

    def of(self, kind: tuple[str, str]) -> float:
        device, precision = kind
        guess = (_INT8 if precision == "int8" else 1) * self.cpu if device == "cpu" else float("inf")
        return self.seen.get(kind, guess)

    def saw(self, job: Job, found: object) -> None:
        rate = max(macs / taken for macs, taken in zip(job.macs, job.setting.taken(found), strict=False))
        self.seen[job.kind] = max(rate, self.seen.get(job.kind, 0.0))


def image_jobs(rows: Sequence[Row], setting: Setting) -> list[Job]:
    return [
        Job(index, setting, (setting.batch * row.macs,), _START + row.parameters / _MADE)
        for index, row in enumerate(rows)
    ]


def text_jobs(
    rows: Sequence[TextRow], settings: Sequence[TextSetting], longest: float, rates: Rates
) -> tuple[list[TextRow], list[Job]]:
    """Return the jobs, and the rows with the reasons for what is left out: batches whose calls take more than
    `longest` seconds, models that do not fit into memory, and int8 if ONNX Runtime is not installed.
    """
    planned, jobs = list(rows), []
    for index, row in enumerate(rows):
        for setting in settings:
            left_out = {
                condition: why
                for condition in setting.conditions()
                if (why := _obstacle(row, condition, longest, rates))
            }
            planned[index] = replace(planned[index], left_out={**planned[index].left_out, **left_out})
            batches = tuple(condition.batch for condition in setting.conditions() if condition not in left_out)
            if batches:
                macs = tuple(batch * row.macs for batch in batches)
                jobs.append(Job(index, replace(setting, batches=batches), macs, _before(row, setting)))
    return planned, jobs


def _obstacle(row: TextRow, condition: Condition, longest: float, rates: Rates) -> str:
    """Return the reason why a model is not timed; empty if there is none."""
    if condition.precision == "int8":
        try:
            FORMATS[".onnx"].require()
        except UserError as error:
            return f"{error.what} ({error.hint})"
    needed, there = _COPIES.get(condition.precision, 2.0) * row.float32, free_memory()
    if condition.device == "cpu" and there is not None and needed > there:
        return f"it takes about {needed / 1e9:.0f} GB of memory, {there / 1e9:.0f} GB are free"
    seconds = CALLS * condition.batch * row.macs / rates.of((condition.device, condition.precision))
    if seconds > longest:
        return f"it would take about {seconds:.0f} s, more than --longest {longest:g}"
    return ""


def _before(row: TextRow, setting: TextSetting) -> float:
    """Return the seconds until the first call."""
    made = _START + row.parameters / _MADE
    if setting.precision != "int8":
        return made
    operations = _OPERATIONS * REGISTRY.find(row.model)[1].config.depth
    return made + FORMATS[".onnx"].seconds(operations) + row.parameters / _MADE
