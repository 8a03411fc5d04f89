"""Measures that a study can add to its finished runs; each is saved in the file of the verb of the same name."""

from dataclasses import dataclass, replace

from patchword.analysis.sharpness.hessian import AT_ONCE
from patchword.analysis.sharpness.sharpness import SharpnessOptions
from patchword.inspection.robustness import Plan, known_robustness, of_these_weights, robustness
from patchword.inspection.saved_sharpness import keep_sharpness, known_sharpness
from patchword.inspection.sharpness import SampleOptions, open_run
from patchword.recipes.run import Run
from patchword.recipes.run_folders.records import DATA, EVALUATION, read_record
from patchword.recipes.text.inference.outputs import Advance


@dataclass(frozen=True)
class LeadingEigenvalue:
    """The largest eigenvalue of the Hessian of the training loss, saved in sharpness.json."""

    asked: SampleOptions
    options: SharpnessOptions
    name: str = "leading eigenvalue"
    unit: str = "loss per squared weight"
    logarithmic: bool = True

    def known(self, run: Run) -> float | None:
        """Return the saved value; None if it is of other samples, or of fewer Hessian-vector products."""
        kept = known_sharpness(run)
        if not kept or (kept["sample"]["count"], kept["sample"]["seed"]) != (self._count(run), self.asked.seed):
            return None
        leading = kept["eigenvalues"][0]
        settled = leading["converged"] or kept["products"] >= min(self.options.products, kept["weights"])
        return float(leading["value"]) if settled else None

    def measure(self, run: Run, device: str, advance: Advance) -> None:
        asked = replace(self.asked, device=device)
        opened = open_run(run, asked)
        products = min(self.options.products, opened.loss.weights)
        passes = 1 + products + -(-self.options.probes // AT_ONCE) + self.options.steps + 3
        step = 1 / (passes * opened.loss.passes)
        reporting = replace(opened, loss=replace(opened.loss, tick=lambda: advance(step)))
        keep_sharpness(reporting, asked, self.options)

    def _count(self, run: Run) -> int:
        return min(self.asked.samples, int(read_record(run.folder, DATA).get("samples", self.asked.samples)))


@dataclass(frozen=True)
class CorruptionAccuracy:
    """The mean accuracy on corrupted test images, saved in robustness.json."""

    plan: Plan
    name: str = "corruption accuracy"
    unit: str = "%"
    logarithmic: bool = False

    def known(self, run: Run) -> float | None:
        """Return the saved value; None if it is of other corruptions or other images."""
        found = known_robustness(run)
        if found is None or not of_these_weights(run):
            return None
        tried = {kind: tuple(row) for kind, row in found.corrupted.items()}
        asked = dict.fromkeys(self.plan.kinds, self.plan.severities)
        same = (found.images, found.seed, tried) == (self._count(run), self.plan.seed, asked)
        return found.mean if same else None

    def measure(self, run: Run, device: str, advance: Advance) -> None:
        robustness(run, self.plan, device, advance)

    def _count(self, run: Run) -> int:
        there = int(read_record(run.folder, EVALUATION)["examples"])
        return there if self.plan.count is None else min(self.plan.count, there)
