"""Export formats that run without this library: ONNX, and exported programs of PyTorch."""

import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, cast

import torch
from torch import Tensor
from torch.export import ExportedProgram

from patchword.core.errors import UserError
from patchword.weights.export.inputs.base import OUTPUT, Inputs
from patchword.weights.export.int8_operations import translations

Runner = Callable[..., Tensor]  # inputs in order -> outputs


class Format(Protocol):
    """A file format. reader: the program with which its outputs are checked."""

    suffix: str

    @property
    def reader(self) -> str: ...

    def require(self) -> None:
        """Raise an error if a package is missing."""
        ...

    def seconds(self, operations: int) -> float:
        """Estimate the time of writing on one core, as measured on models of 100 to 3,000 operations."""
        ...

    def write(self, program: ExportedProgram, inputs: Inputs, notes: Mapping[str, str], path: Path) -> str:
        """Write the program and its notes to a file; return a short description."""
        ...

    def open(self, path: Path) -> Runner:
        """Open the file in its runtime."""
        ...


def save_checked(converted: torch.onnx.ONNXProgram | None, notes: Mapping[str, str], path: Path) -> str:
    """Write a converted program with its notes and check the file; return a short description."""
    import onnx

    assert converted is not None
    converted.model.metadata_props.update(notes)
    converted.save(path)  # weights above ONNX's size limit are written to a second file
    onnx.checker.check_model(path, full_check=True)
    return f"opset {converted.model.opset_imports['']}, {len(converted.model.graph):,} nodes"


class Onnx:
    """The ONNX format, for ONNX Runtime, OpenVINO, TensorRT, browsers and phones. Notes are stored as metadata."""

    suffix = ".onnx"
    packages = ("onnx", "onnxscript", "onnxruntime")

    @property
    def reader(self) -> str:
        import onnxruntime

        return f"ONNX Runtime {onnxruntime.__version__}"

    def require(self) -> None:
        missing = [package for package in self.packages if find_spec(package) is None]
        if missing:
            raise UserError(
                f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed",
                expected=f"{', '.join(self.packages)} to export to ONNX",
                hint="pip install 'patchword[onnx]'",
            )

    def seconds(self, operations: int) -> float:
        return 3 + 0.02 * operations + 2.3e-5 * operations**2  # onnxscript searches the whole graph at every node

    def write(self, program: ExportedProgram, inputs: Inputs, notes: Mapping[str, str], path: Path) -> str:

        with quiet(), torch.no_grad():  # as in tracing: torch's attention has another memory layout with gradients
            converted = torch.onnx.export(
                program,
                dynamo=True,
                dynamic_shapes=inputs.shapes(),
                input_names=list(inputs.names),
                output_names=[OUTPUT],
                custom_translation_table=translations(),
                verbose=False,
            )
        return save_checked(converted, notes, path)

    def open(self, path: Path) -> Runner:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        names = [given.name for given in session.get_inputs()]

        def run(*inputs: Tensor) -> Tensor:
            fed = {name: tensor.numpy() for name, tensor in zip(names, inputs, strict=True)}
            return torch.from_numpy(session.run([OUTPUT], fed)[0])

        return run


class TorchProgram:
    """The format of torch.export, for torch.export.load, torch.compile and AOTInductor.

    Notes are stored as an extra file, notes.json. PyTorch reads parts of the file with pickle, so only trusted files
    should be loaded.
    """

    suffix = ".pt2"

    @property
    def reader(self) -> str:
        return f"torch.export.load of PyTorch {torch.__version__}"

    def require(self) -> None:
        pass

    def seconds(self, operations: int) -> float:
        return 2 + 0.01 * operations

    def write(self, program: ExportedProgram, inputs: Inputs, notes: Mapping[str, str], path: Path) -> str:
        whole = io.BytesIO()  # PyTorch ends the process when the disk is full
        with quiet():
            torch.export.save(program, whole, extra_files={"notes.json": json.dumps(notes, ensure_ascii=False)})
        path.write_bytes(whole.getbuffer())
        return f"{len(program.graph.nodes):,} nodes"

    def open(self, path: Path) -> Runner:
        with quiet():
            return cast(Runner, torch.export.load(path).module())


FORMATS: dict[str, Format] = {form.suffix: form for form in (Onnx(), TorchProgram())}


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the exporter's warnings about optional packages and its own deprecations; errors still show."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
