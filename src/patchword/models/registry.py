"""The one table of models. A family is data; nothing registers itself on import."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError

from patchword.core.card import Card, Normalization
from patchword.core.errors import UserError, nearest
from patchword.core.type_names import in_words
from patchword.layers.model import Model as Model

Probability = Annotated[float, Field(ge=0, lt=1)]  # a rate of dropout and the like
Reads = Literal["images", "texts", "pairs", "characters", "vectors"]


@dataclass(frozen=True)
class Variant:
    """One row: the sizes, and the counts they must give at the default input; tests build it and compare."""

    config: Any
    parameters: int
    macs: int


@dataclass(frozen=True)
class Family:
    """One architecture: how a config becomes a model, and the sizes that have names."""

    name: str
    title: str
    paper: str
    build: Callable[[Any], Model]
    variants: Mapping[str, Variant]
    normalization: Normalization | None = None  # of pixels
    read: Literal["texts", "pairs", "characters", "vectors"] = "texts"  # if it has no pixels

    @property
    def reads(self) -> Reads:
        return self.read if self.normalization is None else "images"

    def names(self) -> dict[str, Variant]:
        return {f"{self.name}-{key}" if key else self.name: variant for key, variant in self.variants.items()}


@dataclass(frozen=True)
class Registry:
    """Looks models up by name."""

    families: tuple[Family, ...]

    def find(self, name: str) -> tuple[Family, Variant]:
        for family in self.families:
            if name in family.names():
                return family, family.names()[name]
        known = [model for family in self.families for model in family.names()]
        raise UserError(f"no model is called {name!r}", hint=f"{nearest(name, known)} (`patchword models` lists all)")

    def names(self, pattern: str = "*") -> list[str]:
        known = [name for family in self.families for name in family.names()]
        return [name for name in known if fnmatchcase(name, pattern)]

    def configure(self, name: str, overrides: Mapping[str, Any]) -> Any:
        """The variant's config with some fields replaced; strings from a command line become the field's type."""
        config = self.find(name)[1].config
        known = [field.name for field in fields(config)]
        for field in overrides:
            if field not in known:
                raise UserError(f"model {name!r} has no field {field!r}", hint=nearest(field, known))
        try:
            return TypeAdapter(type(config)).validate_python(asdict(replace(config, **overrides)))
        except ValidationError as error:
            first = error.errors()[0]
            field = str(first["loc"][0])
            kind, given = get_type_hints(type(config), include_extras=True)[field], overrides.get(field, first["input"])
            raise UserError(f"field {field!r} of model {name!r}", expected=in_words(kind), got=repr(given)) from None

    def example(self, card: Card) -> Any:
        """An input of the size the model is for, on the default device."""
        return self.configure(card.model, card.config).example()

    def reads(self, name: str) -> Reads:
        """images; texts; pairs of texts, of which it writes the second; or texts as the characters of their words,
        or as vectors of their words that another model made"""
        return self.find(name)[0].reads

    def reads_images(self, name: str) -> bool:
        return self.reads(name) == "images"

    def require_images(self, name: str) -> None:
        if not self.reads_images(name):
            raise UserError(f"{name!r} reads {self.reads(name)}", expected="a model of images")

    def create(self, name: str, /, **overrides: Any) -> Model:
        family, _ = self.find(name)
        config = self.configure(name, overrides)
        model = family.build(config)
        model.card = Card(name, asdict(config))
        if family.normalization:
            model.card = replace(model.card, normalization=family.normalization.over(config.channels))
        return model
