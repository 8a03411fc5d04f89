"""The table of all models. A family is data; no module registers itself on import."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from fnmatch import fnmatchcase
from functools import cache, partial
from math import inf
from typing import Annotated, Any, Literal, cast, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError
from torch import Tensor, nn

from patchword.core.card import Card, ConfigValue, Normalization
from patchword.core.errors import UserError, nearest
from patchword.core.text import Pair, Text
from patchword.core.type_names import in_words
from patchword.layers.model import Model as Model
from patchword.layers.text.frozen_vectors import Frozen
from patchword.models.field_aliases import field_hint
from patchword.models.size_limits import checked_sizes

Probability = Annotated[float, Field(ge=0, lt=1)]  # a rate of dropout or stochastic depth
Input = Tensor | Text | Pair | Frozen  # of a model: images, texts, pairs of texts, or frozen word vectors
Reads = Literal["images", "texts", "pairs", "characters", "vectors"]


@dataclass(frozen=True)
class Variant:
    """A named config, with its number of parameters and of MACs at the default input, which tests verify."""

    config: Any  # a frozen dataclass of the family
    parameters: int
    macs: int


@dataclass(frozen=True)
class Family:
    """An architecture: the function that builds a model from a config, and its named variants."""

    name: str
    title: str
    paper: str
    build: Callable[[Any], Model]
    variants: Mapping[str, Variant]
    normalization: Normalization | None = None  # of the pixels; None if the model reads no images
    read: Literal["texts", "pairs", "characters", "vectors"] = "texts"  # if it reads no images
    normed_maps: bool = False  # as the backbone of a detector, it has a norm for each feature map

    @property
    def reads(self) -> Reads:
        """The kind of input."""
        return self.read if self.normalization is None else "images"

    def names(self) -> dict[str, Variant]:
        """Return the variants by their full names, e.g. "vit-tiny-16"."""
        return {f"{self.name}-{key}" if key else self.name: variant for key, variant in self.variants.items()}


def keep_mlp_ratio(config: Mapping[str, ConfigValue], overrides: Mapping[str, ConfigValue]) -> dict[str, ConfigValue]:
    """Return the overrides with a hidden width of the feed-forward that follows the width, unless they have one.

    A config with a hidden width has no field mlp_ratio: given as an override, it sets the hidden width.

    >>> keep_mlp_ratio({"width": 64, "hidden": 256}, {"width": 128})
    {'width': 128, 'hidden': 512}
    >>> keep_mlp_ratio({"width": 64, "hidden": 256}, {"width": 96, "mlp_ratio": 3})
    {'width': 96, 'hidden': 288}
    """
    width, old, new = config.get("width"), config.get("hidden"), overrides.get("width", config.get("width"))
    if not isinstance(width, int) or not isinstance(old, int) or not str(new).isdecimal():
        return dict(overrides)  # a width that is not a number is refused when all fields are checked
    if "mlp_ratio" not in overrides or not takes_mlp_ratio(config):
        follows = "width" in overrides and "hidden" not in overrides
        return {**overrides, **({"hidden": max(1, round(old * int(str(new)) / width))} if follows else {})}
    hidden = max(1, round(_positive(overrides["mlp_ratio"]) * int(str(new))))
    if str(overrides.get("hidden", hidden)) != str(hidden):
        expected = f"one of them; at width {new}, mlp_ratio={overrides['mlp_ratio']} is hidden={hidden}"
        raise UserError("hidden and mlp_ratio contradict each other", expected=expected, got=overrides["hidden"])
    return {**{field: value for field, value in overrides.items() if field != "mlp_ratio"}, "hidden": hidden}


def takes_mlp_ratio(config: Mapping[str, ConfigValue]) -> bool:
    """Return whether the hidden width of a config is that of a feed-forward over tokens of its width."""
    sizes = config.get("width"), config.get("hidden")
    return all(isinstance(size, int) for size in sizes) and "bottleneck" not in config


def _positive(value: ConfigValue) -> float:
    try:
        number = float(cast(Any, value))
    except (TypeError, ValueError):
        number = 0.0
    if not 0 < number < inf:
        raise UserError("field 'mlp_ratio'", expected="a number greater than 0, e.g. 4", got=repr(value))
    return number


class Registry:
    """All families; finds and creates models by name."""

    def __init__(self, families: Iterable[Family]) -> None:
        self.families = tuple(families)

    @property
    def families(self) -> tuple[Family, ...]:
        return self._families

    @families.setter
    def families(self, families: tuple[Family, ...]) -> None:
        """Set the families, and with them the table of their variants by name."""
        models = [(name, (family, variant)) for family in families for name, variant in family.names().items()]
        taken = [name for name, times in Counter(name for name, _ in models).items() if times > 1]
        assert not taken, f"several models have the same name: {', '.join(taken)}"
        self._families, self._models = families, dict(models)

    def find(self, name: str) -> tuple[Family, Variant]:
        """Return the family and the variant with this name."""
        if name not in self._models:
            hint = f"{nearest(name, self._models)} (`patchword models` lists all)"
            raise UserError(f"no model is called {name!r}", hint=hint)
        return self._models[name]

    def names(self, pattern: str = "*") -> list[str]:
        """Return the names of all variants that match a shell pattern."""
        return [name for name in self._models if fnmatchcase(name, pattern)]

    def configure(self, name: str, overrides: Mapping[str, ConfigValue]) -> Any:
        """Return the variant's config with some fields replaced; strings are converted to the type of the field.

        Another width without another hidden width keeps the variant's MLP ratio.
        """
        config = self.find(name)[1].config
        return configured(name, config, keep_mlp_ratio(vars(config), overrides))

    def example(self, card: Card) -> Input:
        """Return an example input of the model's default size, on the default device."""
        return cast(Input, self.configure(card.model, card.config).example())

    def reads(self, name: str) -> Reads:
        """Return the kind of input: images; texts; pairs (source and target texts); characters (of the words of texts);
        or vectors (frozen word vectors)."""
        return self.find(name)[0].reads

    def reads_images(self, name: str) -> bool:
        """Return True if the model reads images."""
        return self.reads(name) == "images"

    def require_images(self, name: str) -> None:
        """Raise a UserError if the model does not read images."""
        if not self.reads_images(name):
            raise UserError(f"{name!r} reads {self.reads(name)}", expected="a model of images")

    def create(self, name: str, /, **overrides: ConfigValue) -> Model:
        """Create a model with newly initialized weights and set its card."""
        family, _ = self.find(name)
        config = self.configure(name, overrides)
        model = family.build(config)
        model.card = Card(name, asdict(config))
        model.new_head = partial(new_head, name, family.build, config)
        if family.normalization:
            model.card = replace(model.card, normalization=family.normalization.over(config.channels))
        return model


def configured(name: str, config: Any, overrides: Mapping[str, ConfigValue]) -> Any:
    """Return a config with some fields replaced and checked; `name` is that of the model, for the messages."""
    known = [field.name for field in fields(config)]
    for field in overrides:
        if field not in known:
            raise UserError(f"model {name!r} has no field {field!r}", hint=field_hint(field, known))
    try:
        return checked_sizes(name, _validator(config.__class__).validate_python(asdict(replace(config, **overrides))))
    except ValidationError as error:
        first = error.errors()[0]
        field = str(first["loc"][0])
        kind, given = get_type_hints(type(config), include_extras=True)[field], overrides.get(field, first["input"])
        raise UserError(f"field {field!r} of model {name!r}", expected=in_words(kind), got=repr(given)) from None


@cache
def _validator(config: type[Any]) -> TypeAdapter[Any]:
    """Return what checks configs of this class; making it takes longer than a check."""
    return TypeAdapter(config)


def new_head(name: str, build: Callable[[Any], Model], config: Any, classes: int) -> nn.Module:
    """Return a newly initialized head of a model for this number of classes."""
    head = getattr(config, "head", "classes")
    if head not in ("classes", "tags"):
        hint = f'create or load it with one: patchword.create({name!r}, head="classes", classes={classes})'
        raise UserError(f"the head {head!r} of {name!r} has no classes", expected="classes or tags", hint=hint)
    return build(configured(name, config, {"classes": classes})).head
