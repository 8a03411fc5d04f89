"""What a model reads and answers as tensors."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from patchword.core.errors import UserError
from patchword.recipes.text.inference.input import TextInput
from patchword.serving.api.oip.tensors import Tensor, TensorSpec, tensor_of
from patchword.serving.engine.request import Item
from patchword.serving.models.images import ServedImages
from patchword.serving.models.served import CannotError, ServedModel
from patchword.serving.models.texts import ServedTexts

ANY = -1
EMBEDDING, TRUNCATED = TensorSpec("embedding", "FP32", (ANY, ANY)), TensorSpec("truncated", "BOOL", (ANY,))
_RANKED = (TensorSpec("labels", "BYTES", (ANY, ANY)), TensorSpec("probabilities", "FP32", (ANY, ANY)))
_RECORDS = (TensorSpec("answers", "BYTES", (ANY,)),)  # of tasks whose answers have no common size
_OF_TASK = {"classes": _RANKED, "labels": _RANKED, "number": (TensorSpec("number", "FP32", (ANY,)),)}


class Signature(Protocol):
    """The tensors of a model. default: the names of the outputs of a request that names none."""

    inputs: Sequence[TensorSpec]
    outputs: Sequence[TensorSpec]
    default: Sequence[str]

    def items(self, given: Mapping[str, Tensor], wanted: Collection[str], top: int) -> list[Item]: ...

    def answers(self, wanted: Sequence[str], items: Sequence[Item], found: Sequence[Any]) -> list[Tensor]: ...


def signature_of(model: ServedModel) -> Signature:
    if isinstance(model, ServedTexts) and set(model.abilities) & {"predict", "embed"}:
        return TextSignature(model)
    if isinstance(model, ServedImages):
        return ImageSignature(model)
    raise CannotError(f"{model.name} has no tensors", expected=f"a request to {' and '.join(model.abilities)}")


class TextSignature:
    """Texts to labels, numbers, records or vectors."""

    def __init__(self, model: ServedTexts) -> None:
        self._model, self._predicts = model, "predict" in model.abilities
        second = (model.second,) if model.second else ()
        self.inputs: Sequence[TensorSpec] = tuple(TensorSpec(name, "BYTES", (ANY,)) for name in ("text", *second))
        own = _OF_TASK.get(str(model.describe()["task"]), _RECORDS) if self._predicts else ()
        self._own = {one.name for one in own}
        vectors = TensorSpec(EMBEDDING.name, EMBEDDING.datatype, (ANY, model.width))
        self.outputs: Sequence[TensorSpec] = (*own, TRUNCATED, vectors)
        self.default: Sequence[str] = tuple(one.name for one in ((*own, TRUNCATED) if own else (TRUNCATED, vectors)))

    def items(self, given: Mapping[str, Tensor], wanted: Collection[str], top: int) -> list[Item]:
        first = _texts(_required(given, "text"))
        known = {"text", *((self._model.second or "pair",) if self._predicts else ())}
        _check_names(given, known, self._model.name)
        pairs = [_texts(one) for name, one in given.items() if name != "text"]
        if pairs and len(pairs[0]) != len(first):
            raise UserError("the second texts", expected=f"{len(first):,}, one per text", got=f"{len(pairs[0]):,}")
        predicts = bool(self._own.intersection(wanted)) or (self._predicts and EMBEDDING.name not in wanted)
        seconds: Sequence[str | None] = pairs[0] if pairs else [None] * len(first)
        inputs = [TextInput(text, pair) for text, pair in zip(first, seconds, strict=True)]
        found = self._model.items(inputs, top) if predicts else []
        return [*found, *(self._model.embed_items(first) if EMBEDDING.name in wanted or not predicts else [])]

    def answers(self, wanted: Sequence[str], items: Sequence[Item], found: Sequence[Any]) -> list[Tensor]:
        vectors = [one for one in found if not isinstance(one, dict)]
        records = [one for one in found if isinstance(one, dict)]
        cut = [item.value.is_truncated for item in items[: len(records) or len(vectors)]]
        rows: dict[str, Callable[[], Sequence[Any]]] = {
            "embedding": lambda: vectors,
            "truncated": lambda: cut,
            "number": lambda: [one["number"] for one in records],
            "answers": lambda: [json.dumps(one, ensure_ascii=False, allow_nan=False) for one in records],
            **_ranked(records),
        }
        types = {one.name: one.datatype for one in self.outputs}
        return [tensor_of(name, types[name], rows[name]()) for name in wanted]


class ImageSignature:
    """Images to classes. They are files, or pixels that are resized and normalized as those of a file are."""

    def __init__(self, model: ServedImages) -> None:
        self._model = model
        pixels = TensorSpec("pixels", "UINT8", (ANY, ANY, ANY, model.channels))
        self.inputs: Sequence[TensorSpec] = (TensorSpec("image", "BYTES", (ANY,)), pixels)
        self.outputs: Sequence[TensorSpec] = _RANKED
        self.default: Sequence[str] = tuple(one.name for one in _RANKED)

    def items(self, given: Mapping[str, Tensor], wanted: Collection[str], top: int) -> list[Item]:
        _check_names(given, {"image", "pixels"}, self._model.name)
        if len(given) != 1:
            raise UserError("an image is given twice", expected="one of the tensors image and pixels")
        if "image" in given:
            return self._model.items(_flat(given["image"], "BYTES"), top)
        pixels, channels = given["pixels"], self._model.channels
        shape = pixels.values.shape
        if pixels.datatype != "UINT8" or len(shape) != 4 or shape[3] != channels or 0 in shape[1:]:
            expected = f"UINT8 of shape (images, height, width, {channels})"
            raise UserError("the tensor pixels", expected=expected, got=f"{pixels.datatype} of shape {shape}")
        return self._model.items(list(pixels.values), top)

    def answers(self, wanted: Sequence[str], items: Sequence[Item], found: Sequence[Any]) -> list[Tensor]:
        ranked, types = _ranked(found), {one.name: one.datatype for one in self.outputs}
        return [tensor_of(name, types[name], ranked[name]()) for name in wanted]


def _ranked(records: Sequence[Mapping[str, Any]]) -> dict[str, Callable[[], Sequence[Any]]]:
    """Return labels and probabilities, one row per input: of classes the best first, of labels all in their order."""

    def rows(one: Mapping[str, Any]) -> list[tuple[str, float]]:
        if "probabilities" in one:
            return list(one["probabilities"].items())
        return [(each["label"], each["probability"]) for each in (one, *one["next"])]

    return {
        "labels": lambda: [[label for label, _ in rows(one)] for one in records],
        "probabilities": lambda: [[probability for _, probability in rows(one)] for one in records],
    }


def _required(given: Mapping[str, Tensor], name: str) -> Tensor:
    if name not in given:
        raise UserError(f"the tensor {name} is missing", got=", ".join(given)[:200])
    return given[name]


def _check_names(given: Mapping[str, Tensor], known: Collection[str], model: str) -> None:
    if unknown := next((name for name in given if name not in known), None):
        expected = " or ".join(sorted(known, key=lambda name: (name != "text", name)))
        raise UserError(f"{model} reads no tensor {unknown[:80]!r}", expected=expected)


def _flat(tensor: Tensor, datatype: str) -> list[Any]:
    """Return the elements of a tensor of shape (inputs,) or (inputs, 1)."""
    shape = tensor.values.shape
    if tensor.datatype != datatype or not (len(shape) == 1 or (len(shape) == 2 and shape[1] == 1)):
        got = f"{tensor.datatype} of shape {shape}"
        raise UserError(f"the tensor {tensor.name}", expected=f"{datatype} of shape (inputs,) or (inputs, 1)", got=got)
    found: list[Any] = tensor.values.ravel().tolist()
    return found


def _texts(tensor: Tensor) -> list[str]:
    try:
        return [one.decode() for one in _flat(tensor, "BYTES")]
    except UnicodeDecodeError as error:
        got = f"the byte 0x{error.object[error.start]:02x}"
        raise UserError(f"the tensor {tensor.name} is not UTF-8", got=got) from None
