"""The table of colours: a name keeps its colour and marker, whatever else a figure shows."""

import colorsys
from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from patchword.data.corruptions import CORRUPTIONS, GROUPS
from patchword.inspection.robustness import Robustness
from patchword.layers import TEXT_POSITIONS
from patchword.reports.colors import IMAGE_FAMILIES, STYLES, TEXT_FAMILIES, style_of, style_of_number, styles_of
from patchword.reports.comparison.positions import accuracy_figure
from patchword.reports.comparison.robustness_figures import severity_figure
from patchword.studies.text_positions import Exercise, Finding


def seen(color, matrix):
    """The colour as someone sees it who lacks one kind of cone; matrix: of linear RGB (Machado et al., 2009)."""
    linear = np.array(to_rgb(color)) ** 2.2
    return (matrix @ linear).clip(0, 1) ** (1 / 2.2)


DEUTERANOPIA = np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]])
PROTANOPIA = np.array([[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]])


@pytest.mark.parametrize("names", [IMAGE_FAMILIES, TEXT_FAMILIES, TEXT_POSITIONS, *GROUPS.values()])
def test_names_of_one_figure_differ_in_colour_and_marker(names):
    styles = [style_of(name) for name in names]
    assert len({style.color for style in styles}) == len({style.marker for style in styles}) == len(styles)


@pytest.mark.parametrize("matrix", [np.eye(3), DEUTERANOPIA, PROTANOPIA], ids=["all", "deuteranopia", "protanopia"])
@pytest.mark.parametrize("names", [TEXT_POSITIONS, *GROUPS.values()])
def test_colour_blind_readers_tell_the_curves_of_a_figure_apart(names, matrix):
    colors = [seen(style_of(name).color, matrix) for name in names]
    assert min(np.abs(one - other).max() for one, other in combinations(colors, 2)) > 0.1


def test_every_corruption_and_every_encoding_is_in_the_table():
    assert {*CORRUPTIONS, *TEXT_POSITIONS} <= STYLES.keys()


def test_a_known_name_has_the_same_style_in_every_subset():
    names = ["Swin", "pretrained", "shaw", "floater", "my-run", "run-7", "baseline"]
    whole = styles_of(names)
    for name in names[:4]:
        assert styles_of([name])[name] == style_of(name) == whole[name]
    assert styles_of(reversed(names)) == whole


def test_other_names_get_their_style_by_name_and_share_none():
    names = [f"run-{number}" for number in range(6)]
    whole = styles_of(names)
    assert len({style.color for style in whole.values()}) == 6
    kept = sum(styles_of(part)[part[0]] == whole[part[0]] for part in combinations(names, 2))
    assert kept >= 12  # of 15: only a name that had to give way has another style in a smaller figure
    assert len(styles_of(f"run-{number}" for number in range(30))) == 30


def test_heads_have_the_colour_of_their_number():
    assert style_of_number(3) == style_of_number(13) != style_of_number(4)


def finding(scheme):
    return Finding(scheme, 0, (1.0, 0.5), None, None, None, None)


def test_the_curve_of_an_encoding_has_its_colour_in_every_figure():
    task = Exercise(lengths=(1, 2))
    for schemes in (["learned", "floater"], ["floater"], ["none", "shaw", "floater"]):
        (axes,) = accuracy_figure([finding(scheme) for scheme in schemes], task).axes
        curves = {line.get_label(): line.get_color() for line in axes.lines}
        assert {name: curves[name] for name in schemes} == {name: style_of(name).color for name in schemes}
        assert axes.get_title(loc="left").startswith("Position encodings")


def test_the_curve_of_a_corruption_has_its_colour_in_every_figure():
    rows = {1: 0.5, 2: 0.4}
    for kinds in (["defocus", "glass", "zoom"], ["zoom"]):
        found = Robustness(images=10, seed=0, clean=0.9, corrupted=dict.fromkeys(kinds, rows), sizes={})
        figure = severity_figure(found)
        lines = {line.get_label(): line.get_color() for line in figure.axes[0].lines}
        assert {kind: lines[kind] for kind in kinds} == {kind: style_of(kind).color for kind in kinds}
        assert figure.get_suptitle() == "Accuracy under corruptions"


def test_the_colours_are_visible_on_white():
    for style in STYLES.values():
        assert colorsys.rgb_to_hls(*to_rgb(style.color))[1] < 0.75
