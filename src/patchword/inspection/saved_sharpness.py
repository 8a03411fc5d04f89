"""Measures the sharpness of a run and saves it in the run's folder."""

import time
from typing import Any

from patchword.analysis.sharpness.hessian import SpectrumCallback
from patchword.analysis.sharpness.sharpness import PhaseCallback, Sharpness, SharpnessOptions, measure
from patchword.core.errors import UserError
from patchword.core.files import read_json, write_json
from patchword.inspection.sharpness import Opened, SampleOptions, weights_digest
from patchword.recipes.run import Run

FILE = "sharpness.json"
_OLD_SAMPLE_KEYS = {"told": "description"}  # keys of "sample" in files of earlier versions
MODE = "Evaluation mode: no dropout, no augmentation, no smoothing; batch norms keep the statistics of training."


def keep_sharpness(
    opened: Opened,
    asked: SampleOptions,
    options: SharpnessOptions,
    on_phase: PhaseCallback = lambda *_: None,
    on_spectrum: SpectrumCallback = lambda _: None,
) -> dict[str, Any]:
    """Measure the sharpness, write it to sharpness.json and return it."""
    began = time.monotonic()
    measured = measure(opened.loss, options, on_phase, on_spectrum)
    kept = _contents(opened.run, opened, asked, measured) | {"seconds": round(time.monotonic() - began, 1)}
    write_json(opened.run.folder / FILE, kept)
    return kept


def known_sharpness(run: Run) -> dict[str, Any]:
    """Return the saved sharpness if it belongs to the current weights of the run; else an empty dict."""
    kept = read_sharpness(run)
    return kept if kept.get("digest") == weights_digest(run) else {}


def read_sharpness(run: Run) -> dict[str, Any]:
    """Return the saved sharpness, also of other weights; an empty dict if there is none."""
    path = run.folder / FILE
    if not path.is_file():
        return {}
    kept = read_json(path)
    if not isinstance(kept, dict) or not isinstance(kept.get("sample", {}), dict):
        raise UserError(f"cannot read {path}", hint="remove it, and run `patchword sharpness` again")
    sample = {_OLD_SAMPLE_KEYS.get(key, key): value for key, value in kept.get("sample", {}).items()}
    return {**kept, "sample": sample}


def _contents(run: Run, opened: Opened, asked: SampleOptions, found: Sharpness) -> dict[str, Any]:
    """Return the content of sharpness.json."""
    spectrum, ball = found.spectrum, found.ball
    leading = zip(spectrum.values.tolist(), spectrum.residuals.tolist(), spectrum.converged, strict=True)
    return {
        "run": str(run.folder),
        "sample": {"description": opened.sample, "count": opened.loss.count, "seed": asked.seed},
        "weights": opened.loss.weights,
        "digest": weights_digest(run),
        "mode": MODE,
        "loss_name": opened.loss_name,
        "loss": found.at.loss,
        "accuracy": found.at.accuracy if opened.has_accuracy else None,
        "eigenvalues": [{"value": value, "residual": left, "converged": done} for value, left, done in leading],
        "lowest": {"value": spectrum.lowest, "residual": spectrum.lowest_residual},
        "products": spectrum.products,
        "history": [list(estimates) for estimates in spectrum.history],
        "trace": {"value": found.trace.value, "error": found.trace.error, "probes": found.trace.probes},
        "epsilon": {
            "rho": ball.radius,
            "rise": ball.rise,
            "one_step": ball.one_step,
            "gradient": ball.slope,
            "history": list(ball.history),
        },
    }
