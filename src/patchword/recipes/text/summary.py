"""The summary that is printed before fine-tuning on texts: the model, its weights and the device."""

import torch
from rich.console import Console

from patchword.core.device import pick_precision
from patchword.layers.text.model import TextModel
from patchword.recipes.model_choice import weights_path
from patchword.recipes.text.recipe import TextRecipe


def print_model(recipe: TextRecipe, model: TextModel, device: torch.device, console: Console) -> None:
    """Print the model, where its weights come from, and the device: a registry name alone has random weights."""
    parameters = sum(parameter.numel() for parameter in model.parameters())
    is_random = recipe.model.from_scratch or weights_path(recipe.model) is None
    lines = (
        f"model    {model.card.model}, {parameters:,} parameters",
        f"weights  {'random: training starts from scratch' if is_random else recipe.model.name}",
        f"device   {device}, {pick_precision(recipe.precision, device)}",
    )
    for line in lines:
        console.print(line, highlight=False, markup=False)
