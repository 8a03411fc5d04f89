"""The recipe: every setting of a run, validated before the run starts."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, NonNegativeInt, ValidationError, model_validator

from patchword.core.errors import UserError, nearest
from patchword.models.older_fields import rename_older_fields
from patchword.models.registry import keep_mlp_ratio
from patchword.recipes.schema.aliases import ADVICE, ALIASES, alias_hint
from patchword.recipes.schema.batch_size import AUTO_MEANS, BatchSize
from patchword.recipes.schema.fields import DEVICE, DEVICES, expected_of, field_value, flat_fields, model_value
from patchword.recipes.schema.older_fields import current_name
from patchword.training.loggers.loggers import LoggerName

STRICT = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

R = TypeVar("R", bound="Recipe")

# Descriptions of fields that several kinds define with other defaults.
KIND = "the recipe kind, which decides the other fields"
MODEL = "a name from the registry or the folder of a trained model; model.FIELD=VALUE changes a field of its config"
EPOCHS = "passes over the training data"
LEARNING_RATE = "peak learning rate"
WARMUP = "fraction of the run in which the learning rate rises linearly from 0 to its peak"
SCHEDULE = "how the learning rate falls after the warmup"
WEIGHT_DECAY = "weight decay of AdamW; applied to matrices, not to biases and norms"
EMA_DECAY = "decay of the exponential moving average of the weights, e.g. 0.999; 0 is off"
LABEL_SMOOTHING = "probability that is moved from the true class to all classes equally, in the training loss"
HELD_OUT = "fraction of the documents that is kept for validation and never trained on"
PACKED = "concatenate the texts of a batch without padding; auto: on a GPU"
TEXT_VALIDATION = "a file, or the fraction of the training texts that is kept for validation"
TEXT_TEST = "a file; without one, the result is that of the validation texts"


def _with_hidden(model: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a model with its hidden width, if the width or mlp_ratio sets it: a run's file has it."""
    if "mlp_ratio" not in model and ("width" not in model or "hidden" in model):
        return model
    from patchword.models import REGISTRY

    name = model.get("name")
    return keep_mlp_ratio(vars(REGISTRY.find(name)[1].config), model) if name in REGISTRY.names() else model


def _rescaled(before: dict[str, Any], model: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a model with another width or MLP ratio; without a new ratio that of the recipe is kept."""
    if "mlp_ratio" in model:
        return {field: value for field, value in model.items() if field != "hidden"}
    if not {"width", "hidden"} <= before.keys():
        return model
    return keep_mlp_ratio(before, {field: value for field, value in model.items() if field != "hidden"})


class ModelChoice(BaseModel):
    """A model and the fields of its config that are overridden, e.g. `model.depth=6`."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str = Field(description="a name from the registry (`patchword models`), or the folder of a trained model")
    from_scratch: bool = Field(
        False, description="take only the sizes of the model in that folder; its weights are initialised randomly"
    )

    @model_validator(mode="before")
    @classmethod
    def _rename_older_fields(cls, value: Any) -> Any:
        return _with_hidden(rename_older_fields(value)) if isinstance(value, dict) else value

    def overrides(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class Expect(BaseModel):
    """The measured result of this recipe and its measured duration."""

    model_config = STRICT
    accuracy: float = Field(0.0, ge=0, le=1, description="the metric of the run on the test set; 0 if not measured")
    time: str = Field("", description="how long the run takes, and on which hardware")


def name_only(value: Any) -> Any:
    """Return the fields of a model or a teacher that was given by its name alone."""
    return {"name": value} if isinstance(value, str) else value


Chosen = Annotated[ModelChoice, BeforeValidator(name_only)]


def from_text(value: Any) -> Any:
    """Parse a list that was typed on the command line; return any other value unchanged."""
    try:
        return yaml.safe_load(value) if isinstance(value, str) and value.startswith("[") else value
    except yaml.YAMLError:
        return value


def one_or_more(value: Any) -> Any:
    """Return a list of names that was typed on the command line, e.g. [mlflow, wandb] or mlflow."""
    found = from_text(value)
    return [name.strip() for name in found.split(",") if name.strip()] if isinstance(found, str) else found


# Fields that change how a run is computed, but not its result.
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
HARMLESS |= {"sharding", "keep_checkpoints", "loggers"}
# Fields that may differ when a run is resumed.
CHANGEABLE = HARMLESS - {"seed", "precision", "compile"} | {"expect"}
_LARGEST = 2**48  # of a whole number; torch counts with 64 bits, also products of several


class Recipe(BaseModel):
    """The fields that the recipes of all kinds have in common."""

    model_config = STRICT
    unsupported: ClassVar[frozenset[str]] = frozenset()
    """Fields of all kinds that this kind supports with their default only."""
    kind: str = Field(description=KIND)
    about: str = Field("", description="what the recipe trains, in one sentence")
    expect: Expect = Field(Expect(), description="the result that was measured with this recipe")
    model: Chosen = Field(description=MODEL)
    epochs: int = Field(10, gt=0, description=EPOCHS)
    batch_size: BatchSize = Field(128, ge=0, description=f"samples per optimizer step; {AUTO_MEANS}")
    gradient_accumulation: int = Field(1, gt=0, description="micro-batches per batch; more of them need less memory")
    learning_rate: float = Field(1e-3, gt=0, description=LEARNING_RATE)
    warmup: float = Field(0.1, ge=0, lt=1, description=WARMUP)
    min_lr_ratio: float = Field(0.0, ge=0, le=1, description="learning rate at the end, as a fraction of the peak")
    schedule: Literal["cosine", "linear", "inverse-root", "step"] = Field("cosine", description=SCHEDULE)
    weight_decay: float = Field(0.05, ge=0, description=WEIGHT_DECAY)
    layer_decay: float = Field(
        1.0, gt=0, le=1, description="factor of the learning rate from each block to the block below it; 1 is off"
    )
    freeze: Literal["none", "backbone", "gradual"] = Field(
        "none",
        description="weights that stay fixed: backbone: all but the head (linear probe); gradual: all but the head in "
        "the first epoch, then one block less per epoch, from the top",
    )
    bias_correction: bool = Field(True, description="Adam's bias correction; BERT's optimizer has none")
    clip_norm: float = Field(1.0, ge=0, description="maximum norm of the gradient; 0 is no limit")
    sam: float = Field(0.0, ge=0, description="rho of SAM, e.g. 0.05; each step computes two gradients; 0 is off")
    sam_adaptive: bool = Field(
        False, description="ASAM: scale the ascent step by the size of each weight; use sam=2 or so"
    )
    on_nonfinite: Literal["stop", "skip"] = Field(
        "stop", description="if a loss or gradient is not finite: stop and name the samples, or skip the step"
    )
    loss_spike_factor: float = Field(
        0.0,
        ge=0,
        description="go back to an earlier state if the loss exceeds this multiple of its median, e.g. 3; 0 is off",
    )
    ema_decay: float = Field(0.0, ge=0, lt=1, description=EMA_DECAY)
    average_last_epochs: int = Field(
        0, ge=0, description="instead of ema_decay: average the weights of this many last epochs; 0 is off"
    )
    patience: int = Field(
        0,
        ge=0,
        description="stop after this many epochs without a better validation score, or an equal one with a lower loss; "
        "0 is never",
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="dtype of activations; auto: bfloat16 on GPUs that support it, else float32"
    )
    compile: bool = Field(
        False, description="compile the model with torch.compile; worth it on a GPU in runs of minutes or more"
    )
    activation_checkpointing: Annotated[bool | tuple[NonNegativeInt, ...], BeforeValidator(from_text)] = Field(
        False, description="recompute activations in the backward pass to save memory: true, or stages such as [0, 1]"
    )
    sharding: Literal["none", "full"] = Field(
        "none", description="full: each process holds a shard of the weights (FSDP2), which saves memory"
    )
    device: Annotated[str, Field(pattern=DEVICE)] = Field("auto", description=DEVICES)
    seed: int = Field(0, ge=0, lt=2**63, description="seed of all random numbers of the run")
    save_minutes: float = Field(1.0, ge=0, description="minutes between checkpoints within an epoch")
    keep_checkpoints: bool = Field(
        False, description="keep the checkpoints when the run is finished; only an unfinished run needs them"
    )
    loggers: Annotated[tuple[LoggerName, ...], BeforeValidator(one_or_more)] = Field(
        (), description="programs that also record the run: mlflow, wandb, or tensorboard, which does so if installed"
    )

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        for name, value in self:
            if type(value) is int and value > _LARGEST and name != "seed":
                raise UserError(f"recipe field {name!r}", expected=f"at most {_LARGEST:,}", got=value)
        return self

    def lr_ratios(self) -> Mapping[str, float]:
        """Return factors of the learning rate of parameters by the start of their names."""
        return {}

    def to_yaml(self) -> str:
        """Return all fields as YAML, which `read_recipe` reads."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)

    def located(self) -> Self:
        """Return the recipe with absolute paths of all files, so that the run can be evaluated from any folder."""
        return self

    def with_settings(self, settings: Iterable[str]) -> Self:
        """Return the recipe with changed fields. settings: `field=value` or `field.inner=value`, as typed."""
        changes: list[tuple[str, object]] = []
        for setting in settings:
            path, equals, text = setting.partition("=")
            if not equals:
                raise UserError(f"cannot set {setting!r}", expected="field=value, e.g. epochs=3")
            path = path.strip()
            changes.append((path, model_value(text) if path.partition(".")[0] == "model" else text))
        return self._with_changes(changes)

    def with_values(self, fields: Mapping[str, object]) -> Self:
        """Return the recipe with changed fields, which are given as Python values.

        fields: values by name; inner fields have a dot (`model.depth`) or are in a dictionary (`model: {"depth": 6}`).
        """
        return self._with_changes(
            [(path, field_value(type(self).model_fields.get(path), value)) for path, value in flat_fields(fields)]
        )

    def _with_changes(self, changes: Iterable[tuple[str, object]]) -> Self:
        values, touched, paths = self.model_dump(mode="json"), set(), set()
        before = dict(values["model"])
        # The model's name comes first: it brings its own sizes, which the other settings change.
        for path, value in sorted(changes, key=lambda change: change[0] not in ("model", "model.name")):
            steps = path.split(".")
            if steps[0] == "model" and (meant := current_name(path)):  # a model's own fields are checked later
                raise UserError(f"a recipe has no field {path!r}", hint=f"did you mean {meant!r}?")
            if steps[0] == "model" and len(steps) == 2:
                _check_model_field(type(self), values["model"], steps[1])
            _place(values, steps, value)
            touched.add(steps[0])
            paths.add(path)
        resized = {"model.width", "model.mlp_ratio"} & paths
        if resized and "model.hidden" not in paths and values["model"]["name"] == before["name"]:
            values["model"] = _rescaled(before, values["model"])
        changed = validated(type(self), values)
        if "expect" not in touched and any(
            getattr(changed, name) != getattr(self, name) for name in touched - HARMLESS
        ):
            changed = changed.model_copy(update={"expect": Expect()})  # the measured result is of another run
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
        if isinstance(known := first.get("ctx", {}).get("error"), UserError):
            raise known from None
        given = first["input"]
        if first["loc"][0] == "activation_checkpointing":  # pydantic reports one error for each of its two types
            path, given = "activation_checkpointing", values["activation_checkpointing"]
        got = given if str(given).strip() else repr(given)
        raise UserError(f"recipe field {path!r}", expected=expected_of(recipe, path), got=got) from None


def _hint(path: str, values: Mapping[str, Any], recipe: type[Recipe]) -> str:
    """Return the field that was probably meant; it may be a field of the model."""
    sizes = model_fields_of(values.get("model", {}))
    if path in sizes:
        return f"did you mean 'model.{path}'?"
    meant, known = current_name(path), field_names(recipe)
    if meant in known:
        return f"did you mean {meant!r}?"
    return alias_hint(path, known_fields(recipe, values.get("model", {}))) or nearest(path, known)


def known_fields(recipe: type[Recipe], model: Any) -> list[str]:
    """Return the names of all fields, those of the model's config included; of trained weights, the kind's usual ones.

    model: of the recipe, as its name, its fields or a `ModelChoice`
    """
    sizes = model_fields_of(model) or model_fields_of(recipe.model_fields["model"].default)
    outer = [name for name in recipe.model_fields if name not in recipe.unsupported]
    return [*outer, *field_names(recipe), *(f"model.{size}" for size in sizes)]


def model_fields_of(model: Any) -> list[str]:
    """Return the fields of a model's config; none if the model is a path."""
    from patchword.models import REGISTRY
    from patchword.models.detection import DETECTORS
    from patchword.models.segmentation import SEGMENTERS

    name = model.get("name") if isinstance(model, Mapping) else getattr(model, "name", model)
    if name in REGISTRY.names():
        return list(vars(REGISTRY.find(name)[1].config))
    families: dict[str, Any] = {**DETECTORS, **SEGMENTERS}
    dense = families.get(str(name))
    return list(vars(dense.config)) if dense else []


def _check_model_field(recipe: type[Recipe], model: Any, field: str) -> None:
    """Raise an error for a field that other libraries have. The other fields are checked when the model is built."""
    if field not in ADVICE and field not in ALIASES:
        return
    sizes, known = model_fields_of(model), known_fields(recipe, model)
    if field not in (*sizes, *ModelChoice.model_fields) and (hint := alias_hint(field, known)):
        raise UserError(f"a model has no field {field!r}", hint=hint)


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
        kept = {field: values["model"][field] for field in ("from_scratch",) if field in values["model"]}
        values["model"] = kept  # the sizes belong to the previous model
    for part in path[:-1]:
        values = values.setdefault(part, {})
        if not isinstance(values, dict):
            raise UserError(f"recipe field {part!r} has no inner fields", got=".".join(path))
    values[path[-1]] = value
