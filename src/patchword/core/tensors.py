"""Only safetensors is opened: a file that could run code when read is refused."""

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from patchword.core.errors import UserError
from patchword.core.files import whole_file

Tensors = dict[str, Tensor]

PICKLES = {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib"}


def read_tensors(path: Path) -> tuple[Tensors, dict[str, str]]:
    """The tensors of a .safetensors file, and its text metadata."""
    refuse_pickle(path)
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise UserError(f"cannot read {path}", expected="a whole .safetensors file", got=str(error)) from None


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with whole_file(path) as temporary:
        try:
            save_file(whole, temporary, dict(metadata or {}))
        except SafetensorError as error:  # a full disk, among others
            raise UserError(f"cannot write {path}", got=str(error)) from None
        temporary.chmod(0o644)  # safetensors makes files that only their owner may read


def refuse_pickle(path: Path) -> None:
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    with path.open("rb") as file:
        start = file.read(9)
    is_zip = start.startswith(b"PK\x03\x04")  # torch.save's
    is_bare = (
        start.startswith(b"\x80") and start[8:] != b"{"
    )  # a pickle's first byte, which a header's length may equal
    if path.suffix in PICKLES or is_zip or is_bare:
        convert = f"safetensors.torch.save_file(torch.load({path.name!r}, weights_only=True), 'model.safetensors')"
        raise UserError(
            f"{path} is a pickle, which can run any code when it is opened",
            expected="a .safetensors file",
            hint=f"if you trust it, convert it once: {convert}",
        )
