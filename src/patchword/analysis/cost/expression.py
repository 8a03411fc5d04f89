"""Arithmetic that keeps its formula: the formula, the formula with numbers, and the value."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Union

Term = Union["Expression", int]


class Symbol(NamedTuple):
    """A letter of a formula. derived: how its value follows from other sizes; None if it is given."""

    value: int
    meaning: str
    derived: "Expression | None" = None


@dataclass(frozen=True)
class Expression:
    """An integer with the formula it was computed by.

    >>> N, D = symbol("N", 50, "tokens"), symbol("D", 64, "width")
    >>> (3 * N * D * D).working()
    '3 x N x D x D = 3 x 50 x 64 x 64 = 614,400'

    reduced: the numbers after the divisions, e.g. "7 x 7 + 1".
    """

    formula: str
    numbers: str
    reduced: str
    value: int
    is_factor: bool = True  # needs no parentheses in a product
    symbols: dict[str, Symbol] = field(default_factory=dict, compare=False)

    def __mul__(self, other: Term) -> "Expression":
        return self._joined(" x ", other, self.value * _expression(other).value)

    def __rmul__(self, other: int) -> "Expression":
        return _expression(other) * self

    def __add__(self, other: Term) -> "Expression":
        return self._joined(" + ", other, self.value + _expression(other).value)

    def __truediv__(self, other: Term) -> "Expression":
        """Divide; the result is rounded up, which the formula says, if there is a remainder."""
        right = _expression(other)
        value = -(-self.value // right.value)
        texts = [f"{_divided(a)} / {_divided(b)}" for a, b in zip(self._texts(), right._texts(), strict=True)]
        if value * right.value != self.value:
            texts = [f"ceil({text})" for text in texts]
        is_factor = value * right.value != self.value
        return Expression(texts[0], texts[1], str(value), value, is_factor, self.symbols | right.symbols)

    def working(self) -> str:
        """Return "formula = numbers = value", without repetitions."""
        return " = ".join(self.stages())

    def stages(self) -> list[str]:
        """Return the formula, the numbers, the numbers after the divisions and the value, without repetitions."""
        texts = [text for text in dict.fromkeys(self._texts()) if text != str(self.value)]
        return [*texts, f"{self.value:,}"]

    def to_json(self) -> dict[str, Any]:
        """Return the formula with letters and with numbers, the letters and the value, for `json.dumps`."""
        letters = {name: found.value for name, found in self.symbols.items()}
        texts = {"formula": self.formula, "numbers": self.numbers, "working": self.working()}
        return {**texts, "value": self.value, "symbols": letters}

    def _texts(self) -> tuple[str, str, str]:
        return self.formula, self.numbers, self.reduced

    def _joined(self, sign: str, other: Term, value: int) -> "Expression":
        right, is_product = _expression(other), sign == " x "
        formula, numbers, reduced = (
            f"{_factor(self, a)}{sign}{_factor(right, b)}" if is_product else f"{a}{sign}{b}"
            for a, b in zip(self._texts(), right._texts(), strict=True)
        )
        return Expression(formula, numbers, reduced, value, is_product, self.symbols | right.symbols)


def symbol(name: str, value: int, meaning: str, derived: Expression | None = None) -> Expression:
    """Return a letter with its value. derived: how the value follows from other sizes."""
    assert derived is None or derived.value == value, f"{name} is {value}, but {derived} was derived"
    return Expression(name, str(value), str(value), value, symbols={name: Symbol(value, meaning, derived)})


def _expression(term: Term) -> Expression:
    return term if isinstance(term, Expression) else Expression(str(term), str(term), str(term), term)


def _factor(expression: Expression, text: str) -> str:
    return text if expression.is_factor or " " not in text else f"({text})"


def _divided(text: str) -> str:
    return f"({text})" if " " in text else text
