"""The sharpness of a run: as table rows, and as a section of its report."""

from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from patchword.inspection.saved_sharpness import read_sharpness
from patchword.inspection.sharpness import weights_digest
from patchword.recipes.run import Run
from patchword.reports.colors import style_of_number
from patchword.reports.plots import page
from patchword.reports.plots.figures import drawn, figure_style, title
from patchword.reports.plots.numbers import counted, percent

_MOST = 7  # eigenvalues that are drawn


def rows(kept: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return the name, the value and a remark of each measure."""
    lines = [
        (
            f"{_ordinal(number)} eigenvalue",
            f"{one['value']:,.4g}",
            f"residual {one['residual']:.1e}" + ("" if one["converged"] else ", not converged"),
        )
        for number, one in enumerate(kept["eigenvalues"], 1)
    ]
    lowest, trace, ball = kept["lowest"], kept["trace"], kept["epsilon"]
    lines.append(("lowest eigenvalue", f"{lowest['value']:,.4g}", f"residual {lowest['residual']:.1e}"))
    lines.append(("trace", f"{trace['value']:,.4g}", f"standard error {trace['error']:.2g}, {trace['probes']} probes"))
    one_step = f"SAM's one step {ball['one_step']:+.4g}"
    lines.append((f"highest rise of the loss within {ball['rho']:g}", f"{ball['rise']:+.4g}", one_step))
    lines.append(("norm of the gradient", f"{ball['gradient']:.4g}", f"{kept['weights']:,} weights"))
    return lines


def _ordinal(number: int) -> str:
    if number == 1:
        return "leading"
    ending = "th" if 10 < number % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def sharpness_section(run: Run) -> str:
    """Return the section of the report; empty if `patchword sharpness` was not run."""
    kept = read_sharpness(run)
    if not kept:
        return ""
    if kept["digest"] != weights_digest(run):
        again = f"The weights of this run changed after its sharpness was measured: patchword sharpness {run.folder}"
        return page.section("Sharpness", page.paragraph(page.escape(again), "note"))
    loss = f"The Hessian of the mean {kept['loss_name']} over {kept['sample']['description']}; the loss there is "
    loss += f"{kept['loss']:.4f}" + (
        f", the accuracy {percent(kept['accuracy'])}. " if kept["accuracy"] is not None else ". "
    )
    lines = [page.row(page.escape(name), value, page.escape(note)) for name, value, note in rows(kept)]
    table = page.table("Sharpness of the minimum", ("measure", "value", "remark"), lines, kind="measures")
    svg = page.embedded("svg+xml", convergence(kept))
    last = ", ".join(f"{value:.4g}" for value in kept["history"][-1])
    words = counted(kept["products"], "product")
    figure = page.figure(svg, f"The leading eigenvalues by Lanczos after {words}: {last}.", kind="card")
    about = page.paragraph(page.escape(loss + kept["mode"]))
    notes = "The true eigenvalue is within the residual of the value, usually much nearer. The highest rise is the one "
    notes += "that projected gradient ascent found inside the ball, above the loss at the weights."
    return page.section("Sharpness", about + table + figure + page.paragraph(notes, "note"))


def convergence(kept: dict[str, Any]) -> bytes:
    """Draw the estimates of the leading eigenvalues after each Hessian-vector product, as an SVG."""
    with figure_style():
        figure = Figure(figsize=(5.6, 3.4), layout="constrained")
        axes = figure.add_subplot(xlabel="Hessian-vector products", ylabel="eigenvalue (loss per squared weight)")
        title(axes, "Leading eigenvalues of the Hessian")
        for number in range(min(len(kept["eigenvalues"]), _MOST)):
            known = [(after, values[number]) for after, values in enumerate(kept["history"], 1) if len(values) > number]
            look, few = style_of_number(number + 1), len(known) <= 30
            mark, label = look.marker if few else None, _ordinal(number + 1)
            axes.plot(*zip(*known, strict=True), color=look.color, marker=mark, markersize=4, label=label)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.legend(loc="outside right center", fontsize=9)
        return drawn(figure, "svg")
