"""Public checkpoints of the models of the registry, in a layout that `load` reads.

Names, licences and sizes have not been checked against the hub; `patchword get` prints the true sizes, and refuses a
repository without safetensors. The size is that of the weight file, rounded. The score is the accuracy (%) of the paper
or of its authors on the validation set of ImageNet-1k at the checkpoint's own resolution. It is empty where the paper
has no score for these weights: the ViTs were trained on ImageNet-21k first, and the ResNets and RegNets are not those
of the papers.
"""

from dataclasses import dataclass

from patchword.core.errors import UserError, nearest
from patchword.weights.hub.name import HubName

_MB = 10**6


@dataclass(frozen=True)
class Checkpoint:
    """A public checkpoint. size: bytes. score: as the source publishes it, in percent."""

    name: HubName
    licence: str
    size: int
    score: float | None = None


def _checkpoint(name: str, licence: str, megabytes: int, score: float | None = None) -> Checkpoint:
    return Checkpoint(HubName.parse(f"hf:{name}"), licence, megabytes * _MB, score)


_APACHE, _MIT = "apache-2.0", "mit"

PRETRAINED = {
    "vit-tiny-16": _checkpoint("WinKawaks/vit-tiny-patch16-224", _APACHE, 23),
    "vit-small-16": _checkpoint("WinKawaks/vit-small-patch16-224", _APACHE, 88),
    "vit-base-16": _checkpoint("google/vit-base-patch16-224", _APACHE, 346),
    "vit-large-16": _checkpoint("google/vit-large-patch16-224", _APACHE, 1217),
    "deit-tiny": _checkpoint("facebook/deit-tiny-patch16-224", _APACHE, 23, 72.2),
    "deit-small": _checkpoint("facebook/deit-small-patch16-224", _APACHE, 88, 79.8),
    "deit-base": _checkpoint("facebook/deit-base-patch16-224", _APACHE, 346, 81.8),
    "deit-tiny-distilled": _checkpoint("facebook/deit-tiny-distilled-patch16-224", _APACHE, 24, 74.5),
    "deit-small-distilled": _checkpoint("facebook/deit-small-distilled-patch16-224", _APACHE, 90, 81.2),
    "deit-base-distilled": _checkpoint("facebook/deit-base-distilled-patch16-224", _APACHE, 349, 83.4),
    "swin-tiny": _checkpoint("microsoft/swin-tiny-patch4-window7-224", _APACHE, 113, 81.3),
    "swin-small": _checkpoint("microsoft/swin-small-patch4-window7-224", _APACHE, 199, 83.0),
    "swin-base": _checkpoint("microsoft/swin-base-patch4-window7-224", _APACHE, 351, 83.5),
    "swin-large": _checkpoint("microsoft/swin-large-patch4-window7-224", _APACHE, 787, 86.3),
    "swin-base-384": _checkpoint("microsoft/swin-base-patch4-window12-384", _APACHE, 352, 84.5),
    "swin-large-384": _checkpoint("microsoft/swin-large-patch4-window12-384", _APACHE, 788, 87.3),
    "cvt-13": _checkpoint("microsoft/cvt-13", _APACHE, 80, 81.6),
    "cvt-21": _checkpoint("microsoft/cvt-21", _APACHE, 127, 82.5),
    "cvt-13-384": _checkpoint("microsoft/cvt-13-384", _APACHE, 80, 83.0),
    "cvt-21-384": _checkpoint("microsoft/cvt-21-384", _APACHE, 127, 83.3),
    "cvt-w24-384": _checkpoint("microsoft/cvt-w24-384-22k", _APACHE, 1110, 87.7),
    "pvt-tiny": _checkpoint("Zetatech/pvt-tiny-224", _APACHE, 53, 75.1),
    "pvt-small": _checkpoint("Zetatech/pvt-small-224", _APACHE, 98, 79.8),
    "pvt-medium": _checkpoint("Zetatech/pvt-medium-224", _APACHE, 177, 81.2),
    "pvt-large": _checkpoint("Zetatech/pvt-large-224", _APACHE, 246, 81.7),
    "resnet-18": _checkpoint("microsoft/resnet-18", _APACHE, 47),
    "resnet-34": _checkpoint("microsoft/resnet-34", _APACHE, 87),
    "resnet-50": _checkpoint("microsoft/resnet-50", _APACHE, 102),
    "resnet-101": _checkpoint("microsoft/resnet-101", _APACHE, 179),
    "resnet-152": _checkpoint("microsoft/resnet-152", _APACHE, 242),
    "regnety-4gf": _checkpoint("facebook/regnet-y-040", _APACHE, 83),
    "regnety-8gf": _checkpoint("facebook/regnet-y-080", _APACHE, 157),
    "regnety-16gf": _checkpoint("facebook/regnet-y-160", _APACHE, 335),
    "bert-base": _checkpoint("google-bert/bert-base-uncased", _APACHE, 440),
    "bert-large": _checkpoint("google-bert/bert-large-uncased", _APACHE, 1345),
    "bert-base-cased": _checkpoint("google-bert/bert-base-cased", _APACHE, 436),
    "bert-large-cased": _checkpoint("google-bert/bert-large-cased", _APACHE, 1338),
    "bert-base-multilingual": _checkpoint("google-bert/bert-base-multilingual-cased", _APACHE, 714),
    "bert-base-multilingual-uncased": _checkpoint("google-bert/bert-base-multilingual-uncased", _APACHE, 672),
    "bert-base-chinese": _checkpoint("google-bert/bert-base-chinese", _APACHE, 412),
    "bert-minilm": _checkpoint("sentence-transformers/all-MiniLM-L6-v2", _APACHE, 91),
    "roberta-base": _checkpoint("FacebookAI/roberta-base", _MIT, 499),
    "roberta-large": _checkpoint("FacebookAI/roberta-large", _MIT, 1422),
    "roberta-distil": _checkpoint("distilbert/distilroberta-base", _APACHE, 331),
    "roberta-xlm-base": _checkpoint("FacebookAI/xlm-roberta-base", _MIT, 1116),
    "roberta-xlm-large": _checkpoint("FacebookAI/xlm-roberta-large", _MIT, 2245),
    "albert-base": _checkpoint("albert/albert-base-v2", _APACHE, 47),
    "albert-large": _checkpoint("albert/albert-large-v2", _APACHE, 71),
    "albert-xlarge": _checkpoint("albert/albert-xlarge-v2", _APACHE, 235),
    "albert-xxlarge": _checkpoint("albert/albert-xxlarge-v2", _APACHE, 893),
    "distilbert-base": _checkpoint("distilbert/distilbert-base-uncased", _APACHE, 268),
    "distilbert-base-multilingual": _checkpoint("distilbert/distilbert-base-multilingual-cased", _APACHE, 542),
    "gpt": _checkpoint("openai-community/openai-gpt", _MIT, 479),
    "gpt2-small": _checkpoint("openai-community/gpt2", _MIT, 548),
    "gpt2-medium": _checkpoint("openai-community/gpt2-medium", _MIT, 1520),
    "gpt2-large": _checkpoint("openai-community/gpt2-large", _MIT, 3247),
    "gpt2-xl": _checkpoint("openai-community/gpt2-xl", _MIT, 6431),
}


def find_checkpoint(model: str) -> Checkpoint:
    """Return the public checkpoint of a model of the registry."""
    if model not in PRETRAINED:
        hint = f"{nearest(model, PRETRAINED)} (`patchword models --pretrained` lists all)"
        raise UserError(
            f"no public checkpoint is known for {model!r}", expected="hf:OWNER/REPO or a listed model", hint=hint
        )
    return PRETRAINED[model]


def checkpoint_of(name: HubName) -> Checkpoint | None:
    """Return the checkpoint of a repository on the hub, if it is in the table."""
    return next((found for found in PRETRAINED.values() if found.name.id == name.id), None)
