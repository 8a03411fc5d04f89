"""Makes Triton's interpreter three times as fast, for tests that run kernels without a GPU."""

from dataclasses import replace
from types import FunctionType


def hasten() -> None:
    """Removes two costs of the interpreter: its checks for integer overflow, which a GPU does not have, and the
    patching of a module at every call of one of its functions, which is needed only once per kernel launch."""
    import triton.language as tl
    from triton.runtime import interpreter

    if not hasattr(interpreter, "_LangPatchScope"):  # another version of Triton: not accelerated
        return
    put, done = interpreter._patch_lang, set[int]()

    def put_once(function: FunctionType) -> object:
        if tl.core.is_builtin(tl.load):  # a launch begins: nothing is patched
            done.clear()
        if id(function.__globals__) in done:
            return interpreter._LangPatchScope()
        done.add(id(function.__globals__))
        return put(function)

    interpreter._patch_lang = put_once
    builder = interpreter.interpreter_builder
    builder.options = replace(builder.options, sanitize_overflow=False)
