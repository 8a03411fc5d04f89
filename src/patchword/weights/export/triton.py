"""A model repository of Triton Inference Server: the ONNX file as a version, its configuration, its labels."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchword.core.errors import UserError
from patchword.core.files import remove_folder, write_text

MOST_AT_ONCE = 64  # inputs of a batch
_TYPES = {
    "FLOAT": "TYPE_FP32",
    "FLOAT16": "TYPE_FP16",
    "INT64": "TYPE_INT64",
    "INT32": "TYPE_INT32",
    "BOOL": "TYPE_BOOL",
}
_FORM = "patchword"  # a long record for patchword itself


@dataclass(frozen=True)
class TritonModel:
    """One model of a repository: FOLDER/NAME/config.pbtxt, labels.txt, and a folder with model.onnx per version."""

    repository: Path
    name: str

    @classmethod
    def of(cls, repository: Path, model: str) -> "TritonModel":
        """Return the model that is called as the last part of a run, a folder or a name."""
        name = re.sub(r"[^A-Za-z0-9_.-]+", "-", re.split(r"[/:]", model.rstrip("/"))[-1]).strip("-.")
        if not name:
            raise UserError(f"{model!r} has no name that Triton takes", expected="letters, digits, hyphens and dots")
        return cls(repository, name)

    @property
    def folder(self) -> Path:
        return self.repository / self.name

    @contextmanager
    def new_version(self) -> Iterator[Path]:
        """Yield the place for the ONNX file of a new version, then describe it. Triton serves the highest version.

        Another model under this name is an error; a version that is not described is removed.
        """
        found = [int(path.name) for path in self.folder.glob("*") if path.name.isdecimal()]
        file = self.folder / str(max(found, default=0) + 1) / "model.onnx"
        new = [folder for folder in (self.folder, self.repository) if not folder.exists()]
        try:
            yield file
            self._describe(file)
        except BaseException:
            if file.parent.is_dir():
                remove_folder(file.parent, f".{file.parent.name}.removed")
            for folder in new:
                with suppress(OSError):  # it was never made, or holds what another process wrote
                    folder.rmdir()
            raise

    def _describe(self, file: Path) -> None:
        import onnx

        model = onnx.load(file, load_external_data=False)
        notes = {entry.key: entry.value for entry in model.metadata_props}
        labels = json.loads(notes.get("labels", "[]"))
        config = _config(self.name, model.graph, notes, has_labels=bool(labels))
        place = self.folder / "config.pbtxt"
        if place.exists() and place.read_text(encoding="utf-8") != config:
            hint = "choose another repository, or remove this model from it"
            raise UserError(
                f"{self.folder} holds another model", expected="the same inputs, outputs and notes", hint=hint
            )
        if labels:
            write_text(self.folder / "labels.txt", "".join(f"{_line(label)}\n" for label in labels))
        write_text(place, config)


def _config(name: str, graph: Any, notes: Mapping[str, str], has_labels: bool) -> str:
    """Return the text of config.pbtxt. The batch is a dimension of its own where the file takes any."""
    inputs, outputs = ([_tensor(value) for value in values] for values in (graph.input, graph.output))
    any_batch = all(shape[0] == -1 for _, _, shape in [*inputs, *outputs])
    lines = [f"name: {_quoted(name)}", 'platform: "onnxruntime_onnx"', f"max_batch_size: {MOST_AT_ONCE * any_batch}"]
    for kind, tensors in (("input", inputs), ("output", outputs)):
        for tensor, data_type, shape in tensors:
            dims = ", ".join(map(str, shape[1:] if any_batch else shape))
            label = ' label_filename: "labels.txt"' if kind == "output" and has_labels and len(outputs) == 1 else ""
            lines.append(f"{kind} {{ name: {_quoted(tensor)} data_type: {data_type} dims: [ {dims} ]{label} }}")
    if any_batch:
        lines.append("dynamic_batching { max_queue_delay_microseconds: 1000 }")
    for key, value in sorted(notes.items()):
        if key not in (_FORM, "labels"):
            lines.append(f"parameters {{ key: {_quoted(key)} value {{ string_value: {_quoted(value)} }} }}")
    return "".join(f"{line}\n" for line in lines)


def _tensor(value: Any) -> tuple[str, str, Sequence[int]]:
    """Return name, type and shape of an input or output; -1 for a size that is free."""
    import onnx

    tensor = value.type.tensor_type
    data_type = _TYPES[onnx.TensorProto.DataType.Name(tensor.elem_type)]
    return value.name, data_type, [-1 if size.dim_param else size.dim_value for size in tensor.shape.dim]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # protobuf's text has the same escapes


def _line(label: str) -> str:
    return " ".join(label.split())
