"""Makes Triton's interpreter several times faster, for tests that run kernels without a GPU.

All of its time goes into objects that describe types and shapes, not into numbers. What is made again and again for the
same shape is made once; every operation computes what it computed before.
"""

import builtins
from collections.abc import Callable
from dataclasses import replace
from types import FunctionType
from typing import Any

_PARTS = {
    "interpreter": ("_LangPatchScope", "_patch_lang", "_patch_attr", "_get_np_dtype", "interpreter_semantic"),
    "core": ("block_type", "tensor", "constexpr", "tuple", "dtype", "pointer_type", "builtin", "_unwrap_if_constexpr"),
}


def hasten() -> None:
    """Replace slow parts of the interpreter. A Triton that has other parts stays as it is."""
    import triton.language as tl
    from triton.runtime import interpreter

    found = {"interpreter": interpreter, "core": tl.core}
    if not all(hasattr(found[module], part) for module, parts in _PARTS.items() for part in parts):
        return
    if hasattr(interpreter, "_hastened"):
        return
    interpreter._hastened = True
    # It looks for sums of integers that overflow, which a GPU does not.
    builder = interpreter.interpreter_builder
    builder.options = replace(builder.options, sanitize_overflow=False)
    _replace_functions_once(tl, interpreter)
    _call_operations_directly(tl, interpreter)
    _keep_shapes(tl.core)
    _keep_numpy_types(tl.core, interpreter)
    _compare_types_quickly(tl.core)


def _replace_functions_once(tl: Any, interpreter: Any) -> None:
    """The interpreter replaces Triton's operations whenever a kernel calls a function, in the module of that function:
    once per kernel is enough."""
    patch, done = interpreter._patch_lang, set[int]()

    def patch_once(function: FunctionType) -> object:
        if tl.core.is_builtin(tl.load):  # a kernel begins: all operations are Triton's own
            done.clear()
        if id(function.__globals__) in done:
            return interpreter._LangPatchScope()
        done.add(id(function.__globals__))
        return patch(function)

    interpreter._patch_lang = patch_once


def _call_operations_directly(tl: Any, interpreter: Any) -> None:
    """Call an operation with the interpreter's semantics, without a new dict and without checking that they exist."""
    checked = tl.core.builtin(lambda: None).__code__
    semantic = interpreter.interpreter_semantic

    def patch_attr(obj: object, name: str, member: Any, builder: object, scope: Any) -> None:
        inner = member.__wrapped__ if getattr(member, "__code__", None) is checked else member

        def operation(*args: Any, **kwargs: Any) -> Any:
            kwargs["_semantic"] = semantic
            return inner(*args, **kwargs)

        scope.set_attr(obj, name, operation)

    interpreter._patch_attr = patch_attr


def _keep_shapes(core: Any) -> None:
    """One object per shape, for the types of blocks and for tensors."""
    constexpr = core.constexpr
    first: Callable[..., None] = core.block_type.__init__
    blocks: dict[builtins.tuple[Any, ...], builtins.tuple[Any, int, str]] = {}
    tensors: dict[builtins.tuple[int, ...], builtins.tuple[Any, Any]] = {}

    def block_type(self: Any, element_ty: Any, shape: Any) -> None:
        sizes = shape.values if type(shape) is core.tuple else shape
        key = (element_ty.name, *[size.value if type(size) is constexpr else size for size in sizes])
        kept = blocks.get(key)
        if kept is None:
            first(self, element_ty, shape)
            blocks[key] = (self.shape, self.numel, self.name)
        else:
            self.element_ty = element_ty
            self.shape, self.numel, self.name = kept

    def tensor(self: Any, handle: object, type: Any) -> None:
        self.handle, self.type, self.dtype = handle, type, type.scalar
        key = builtins.tuple(type.shape.values) if type.is_block() else ()
        kept = tensors.get(key)
        if kept is None:
            numel = 1
            for size in key:
                numel *= size
            kept = tensors[key] = (constexpr(numel), core.tuple([constexpr(size) for size in key]))
        self.numel, self.shape = kept

    core.block_type.__init__ = block_type
    core.tensor.__init__ = tensor


def _keep_numpy_types(core: Any, interpreter: Any) -> None:
    """numpy's dtype of a Triton dtype is looked up once."""
    first, kept = interpreter._get_np_dtype, dict[str, Any]()

    def get_np_dtype(dtype: Any) -> Any:
        found = kept.get(dtype.name)
        if found is None:
            found = kept[dtype.name] = first(dtype)
        return found

    interpreter._get_np_dtype = get_np_dtype


def _compare_types_quickly(core: Any) -> None:
    """Most compared types are the same object, and most unwrapped values are no compile-time constants."""
    equal, unwrap = core.dtype.__eq__, core._unwrap_if_constexpr
    constexpr, as_they_are = core.constexpr, {int, float, bool, str, type(None), core.tensor, core.dtype}

    def is_equal(self: Any, other: Any) -> bool:
        return self is other or equal(self, other)

    def unwrapped(value: Any) -> Any:
        kind = type(value)
        if kind is constexpr:
            return value.value
        return value if kind in as_they_are else unwrap(value)

    core.dtype.__eq__ = is_equal
    core._unwrap_if_constexpr = unwrapped
