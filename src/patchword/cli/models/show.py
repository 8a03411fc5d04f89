"""show: prints the parts of a model."""

from typing import TYPE_CHECKING

from patchword.cli.common import Download, Fields, Model, Settings, card_of, console, fetch_model, settings_of

if TYPE_CHECKING:
    from rich.tree import Tree

    from patchword.analysis.shapes import Part


def show(model: Model, fields: Fields = None, settings: Settings = None, download: Download = False) -> None:
    """Show the parts of a model as a tree: class, output shape and parameters of each.

    Examples:

      patchword show swin-tiny
      patchword show vit-base-16 image=384 mlp_ratio=3
      patchword show mask-rcnn backbone=swin-tiny
      patchword show upernet backbone=swin-tiny
    """
    from rich.tree import Tree

    from patchword.analysis.cost.count import mlp_ratio
    from patchword.analysis.shapes import detector_tree, part_tree, segmenter_tree
    from patchword.cli.models.detectors import detector_card, is_detector
    from patchword.cli.models.segmenters import is_segmenter, segmenter_card

    fetch_model(model, download)
    changes = settings_of(settings, fields)
    detects = is_detector(model)
    if detects:
        card = detector_card(model, changes)
        root = detector_tree(card)
    elif is_segmenter(model):
        card = segmenter_card(model, changes)
        root = segmenter_tree(card)
    else:
        card = card_of(model, changes)
        root = part_tree(card)
    tree = Tree(f"[bold]{card.model}[/bold]  {root.parameters:,} parameters")
    _grow(tree, root)
    out = console(120)
    out.print(tree, highlight=False)
    if detects:
        out.print("[dim]a head that runs on every level has the shape of the coarsest one[/dim]")
    for fact in mlp_ratio(card):
        out.print(fact, highlight=False, markup=False)
    shapes = "(batch, tokens, width), (batch, classes), or (batch, width, rows, columns) for a map"
    out.print(f"[dim]input {_shape(root.input)}; shapes are {shapes}[/dim]", highlight=False)


def _grow(tree: "Tree", part: "Part") -> None:
    """Add the children of a part; equal neighbours, such as the blocks of an encoder, are shown once."""
    index = 0
    while index < len(part.children):
        child = part.children[index]
        equal = 1
        while index + equal < len(part.children) and part.children[index + equal].same_as(child):
            equal += 1
        name = child.name if equal == 1 else f"{child.name} .. {part.children[index + equal - 1].name}"
        times = f" x {equal}" if equal > 1 else ""
        detail = f"({child.detail})" if child.detail else ""
        count = f"  [green]{child.parameters * equal:,}[/green]" if child.parameters else ""
        shape = f"  [cyan]{_shape(child.output)}[/cyan]" if child.output else ""
        branch = tree.add(f"[bold]{name}[/bold]: {child.kind}[dim]{detail}[/dim]{times}{shape}{count}")
        _grow(branch, child)
        index += equal


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(str(side) for side in shape)
