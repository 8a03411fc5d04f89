"""Builds the model of masked image modelling, saves it as a classifier, and loads it again."""

from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from patchword.core.errors import UserError
from patchword.core.tensor_files import read_tensors, write_tensors
from patchword.layers.model import Model
from patchword.layers.pyramid import Pyramid
from patchword.models import REGISTRY
from patchword.objectives.masked_image import MaskedImageModel
from patchword.recipes.image.model import ImageModelPlan
from patchword.recipes.run_folder import RunFolder
from patchword.weights import save

FAMILIES = ("vit", "deit")  # one stage, whose patches do not overlap and keep their positions
DECODER = "decoder.safetensors"  # the mask token and the prediction head, beside the model of a run
_ENCODER = ("stages.", "norm.")


def check_family(name: str) -> None:
    """Raise an error for a model whose patches cannot be replaced by mask tokens."""
    family = REGISTRY.find(name)[0]
    if family.name not in FAMILIES:
        titles = " or ".join(known.title for known in REGISTRY.families if known.name in FAMILIES)
        raise UserError(
            f"{name!r} is a {family.title}, which masked image modelling does not support",
            expected=f"a {titles}, e.g. model=vit-tiny-16",
        )


@dataclass(frozen=True)
class PretrainedModel:
    """The model that is trained, and the classifier with a new head as which its encoder is saved."""

    masked: MaskedImageModel
    classifier: Model

    def save(self, folder: Path) -> None:
        """Save the encoder as a model that `load` reads, and the other weights in a file of their own."""
        state = self.masked.state_dict()
        encoder = {name: tensor for name, tensor in state.items() if name.startswith(_ENCODER)}
        self.classifier.load_state_dict(encoder, strict=False)  # its head stays
        write_tensors(folder / DECODER, {name: tensor for name, tensor in state.items() if name not in encoder})
        save(self.classifier, folder)


def build_model(plan: ImageModelPlan) -> PretrainedModel:
    """Build the model with random weights, or with those of the plan; a trained head is not used."""
    if plan.weights is None:
        vit = REGISTRY.create(plan.name, **plan.fields)
    else:
        classes = plan.weights.card.config["classes"]
        vit = plan.weights.build(**{"classes": classes, **plan.fields}).train()
        vit.reset_classifier(vit.card.config["classes"])
    vit.card = replace(vit.card, labels=())
    return PretrainedModel(MaskedImageModel(cast(Pyramid, vit)), deepcopy(vit))


def load_model(run: RunFolder) -> MaskedImageModel:
    """Load the model of a run with its mask token and prediction head."""
    if not (run.folder / DECODER).is_file():
        raise UserError(f"{run.folder} has no {DECODER}", expected="the mask token and the prediction head of the run")
    masked = MaskedImageModel(cast(Pyramid, run.model()))
    masked.load_state_dict({**masked.state_dict(), **read_tensors(run.folder / DECODER)[0]})
    return masked.eval()
