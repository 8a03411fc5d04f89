"""Triton's interpreter in a third of its time, for tests that run kernels without a GPU."""

from dataclasses import replace
from types import FunctionType


def hasten() -> None:
    """Two things are left out. It looks for sums of integers that overflow, which a GPU does not. And whenever a kernel
    calls a function, it puts its own in the place of Triton's for the module of that function: once will do."""
    import triton.language as tl
    from triton.runtime import interpreter

    if not hasattr(interpreter, "_LangPatchScope"):  # another Triton, which takes the time it takes
        return
    put, done = interpreter._patch_lang, set[int]()

    def put_once(function: FunctionType) -> object:
        if tl.core.is_builtin(tl.load):  # a kernel begins: all is Triton's own
            done.clear()
        if id(function.__globals__) in done:
            return interpreter._LangPatchScope()
        done.add(id(function.__globals__))
        return put(function)

    interpreter._patch_lang = put_once
    builder = interpreter.interpreter_builder
    builder.options = replace(builder.options, sanitize_overflow=False)
