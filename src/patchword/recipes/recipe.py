"""The fields of a recipe: everything a run depends on, checked before anything starts."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, NonNegativeInt, ValidationError

from patchword.core.errors import UserError, nearest
from patchword.recipes.fields import DEVICE, DEVICES, expected_of, model_value
from patchword.recipes.older_fields import current_name

STRICT = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

R = TypeVar("R", bound="Recipe")


class ModelChoice(BaseModel):
    """A registry name or the folder of a trained model, and any of the model's own fields to override.

    from_scratch: the sizes of that folder's model, but none of its weights.
    """

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str
    from_scratch: bool = False

    def overrides(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class Expect(BaseModel):
    """What a run of this recipe should give, and how long it takes; measured, not hoped."""

    model_config = STRICT
    accuracy: float = Field(0.0, ge=0, le=1, description="the run's metric on the test set")
    time: str = ""


def name_only(value: Any) -> Any:
    """a name instead of the fields that it is one of"""
    return {"name": value} if isinstance(value, str) else value


Chosen = Annotated[ModelChoice, BeforeValidator(name_only)]


def from_text(value: Any) -> Any:
    """a list typed on a command line"""
    try:
        return yaml.safe_load(value) if isinstance(value, str) and value.startswith("[") else value
    except yaml.YAMLError:
        return value


# Fields that change how a run is done, not what comes out.
HARMLESS = {
    "about",
    "seed",
    "device",
    "precision",
    "compile",
    "activation_checkpointing",
    "gradient_accumulation",
    "save_minutes",
    "on_nonfinite",
}
HARMLESS |= {"sharding"}
# Those of them that a run may go on with when they differ, and what is not about this run at all.
CHANGEABLE = HARMLESS - {"seed", "precision", "compile"} | {"expect"}


class Recipe(BaseModel):
    """What the recipes of all kinds of runs have in common."""

    model_config = STRICT
    kind: str
    about: str = Field("", description="what this run shows")
    expect: Expect = Expect()
    model: Chosen
    epochs: int = Field(10, gt=0)
    batch_size: int = Field(128, gt=0)
    gradient_accumulation: int = Field(1, gt=0, description="pieces a batch is worked on in, to save memory")
    learning_rate: float = Field(1e-3, gt=0, description="peak learning rate")
    warmup: float = Field(0.1, ge=0, lt=1, description="share of the run in which the rate rises")
    min_lr_ratio: float = Field(0.0, ge=0, le=1, description="share of the peak rate left at the end")
    schedule: Literal["cosine", "linear", "inverse-root"] = Field("cosine", description="how the rate falls")
    weight_decay: float = Field(0.05, ge=0, description="weight decay, on matrices only")
    layer_decay: float = Field(
        1.0, gt=0, le=1, description="each block learns at this share of the rate of the block above it"
    )
    bias_correction: bool = Field(True, description="Adam's correction for its start; BERT's own optimizer had none")
    clip_norm: float = Field(1.0, ge=0, description="largest gradient norm; 0 is no limit")
    sam: float = Field(0.0, ge=0, description="SAM, e.g. 0.05: how far to climb; two gradients a step; 0 is off")
    sam_adaptive: bool = Field(False, description="ASAM: climb by the size of each weight, with a sam of about 2")
    on_nonfinite: Literal["stop", "skip"] = Field(
        "stop", description="when a loss or a gradient is no number: stop and name the rows, or leave the step out"
    )
    loss_spike_factor: float = Field(
        0.0, ge=0, description="e.g. 3: go back when the loss rises above so many times its median; 0 is off"
    )
    ema_decay: float = Field(0.0, ge=0, lt=1, description="decay of the moving average of the weights; 0 is off")
    average_last_epochs: int = Field(
        0, ge=0, description="instead: the mean of the weights at the end of so many last epochs; 0 is off"
    )
    patience: int = Field(0, ge=0, description="epochs without a better validation score before stopping; 0 is never")
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    compile: bool = Field(False, description="compile the model (pays on a GPU, in runs of minutes)")
    activation_checkpointing: Annotated[bool | tuple[NonNegativeInt, ...], BeforeValidator(from_text)] = Field(
        False, description="compute activations again instead of keeping them, to save memory: true, or stages [0, 1]"
    )
    sharding: Literal["none", "full"] = Field(
        "none", description="full: processes hold a part of the weights each (FSDP2), to save memory"
    )
    device: Annotated[str, Field(pattern=DEVICE)] = Field("auto", description=DEVICES)
    seed: int = Field(0, ge=0, lt=2**63)
    save_minutes: float = Field(1.0, ge=0, description="between checkpoints inside an epoch")

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)

    def located(self) -> Self:
        """The same, with files named by their whole paths, so that the run can be evaluated from anywhere."""
        return self

    def with_settings(self, settings: Iterable[str]) -> Self:
        """`field=value` or `field.inner=value`, as typed on a command line."""
        values, touched = self.model_dump(mode="json"), set()
        # A model's name comes first: it brings sizes of its own, which the other settings change.
        for setting in sorted(settings, key=lambda text: text.partition("=")[0].strip() not in ("model", "model.name")):
            path, equals, text = setting.partition("=")
            if not equals:
                raise UserError(f"cannot set {setting!r}", expected="field=value, e.g. epochs=3")
            steps = path.strip().split(".")
            if steps[0] == "model" and (meant := current_name(path.strip())):  # a model's own fields are checked later
                raise UserError(f"a recipe has no field {path.strip()!r}", hint=f"did you mean {meant!r}?")
            _place(values, steps, model_value(text) if steps[0] == "model" else text)
            touched.add(steps[0])
        changed = validated(type(self), values)
        if "expect" not in touched and any(
            getattr(changed, name) != getattr(self, name) for name in touched - HARMLESS
        ):
            changed = changed.model_copy(update={"expect": Expect()})  # what was measured is not this run
        return changed


def validated(recipe: type[R], values: Mapping[str, Any]) -> R:
    """Return a recipe of this class; the error message names the first wrong field and the nearest known one."""
    try:
        return recipe.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            raise UserError(f"a recipe has no field {path!r}", hint=_hint(path, values, recipe)) from None
        if first["type"] == "missing":
            raise UserError(f"the recipe lacks the field {path!r}") from None
        given = first["input"]
        if first["loc"][0] == "activation_checkpointing":  # pydantic reports one error for each of its two types
            path, given = "activation_checkpointing", values["activation_checkpointing"]
        got = given if str(given).strip() else repr(given)
        raise UserError(f"recipe field {path!r}", expected=expected_of(recipe, path), got=got) from None


def _hint(path: str, values: Mapping[str, Any], recipe: type[Recipe]) -> str:
    """Return the field that was probably meant; it may be a field of the model."""
    from patchword.models import REGISTRY

    model = values.get("model", {})
    name = model.get("name") if isinstance(model, Mapping) else model
    if name in REGISTRY.names() and path in vars(REGISTRY.find(name)[1].config):
        return f"did you mean 'model.{path}'?"
    meant, known = current_name(path), field_names(recipe)
    return f"did you mean {meant!r}?" if meant in known else nearest(path, known)


def field_names(recipe: type[Recipe]) -> list[str]:
    """Return the names of all fields, those of inner models with a dot."""
    names = []
    for name, field in recipe.model_fields.items():
        inner = field.annotation
        nested = isinstance(inner, type) and issubclass(inner, BaseModel) and inner is not ModelChoice
        names += [f"{name}.{sub}" for sub in inner.model_fields] if nested else [name]  # type: ignore[union-attr]
    return names


def _place(values: dict[str, Any], path: list[str], value: Any) -> None:
    if path in (["model"], ["teacher"]):
        path = [*path, "name"]
    if path == ["model", "name"] and values["model"]["name"] != value:
        kept = {field: values["model"][field] for field in ("image", "from_scratch") if field in values["model"]}
        values["model"] = kept  # the other sizes were those of the model before
    for part in path[:-1]:
        values = values.setdefault(part, {})
        if not isinstance(values, dict):
            raise UserError(f"recipe field {part!r} has no inner fields", got=".".join(path))
    values[path[-1]] = value
