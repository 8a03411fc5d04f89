"""Arithmetic that keeps its formula: the formula, the formula with numbers, and the value."""

from dataclasses import dataclass, field
from typing import Union

Term = Union["Expression", int]


@dataclass(frozen=True)
class Expression:
    """An integer with the formula it was computed by.

    >>> N, D = symbol("N", 50, "tokens"), symbol("D", 64, "width")
    >>> (3 * N * D * D).working()
    '3 x N x D x D = 3 x 50 x 64 x 64 = 614,400'
    """

    formula: str
    numbers: str
    value: int
    is_sum: bool = False
    symbols: dict[str, tuple[int, str]] = field(default_factory=dict, compare=False)  # name -> value, meaning

    def __mul__(self, other: Term) -> "Expression":
        right = _expression(other)
        return Expression(
            f"{_factor(self, self.formula)} x {_factor(right, right.formula)}",
            f"{_factor(self, self.numbers)} x {_factor(right, right.numbers)}",
            self.value * right.value,
            symbols=self.symbols | right.symbols,
        )

    def __rmul__(self, other: int) -> "Expression":
        return _expression(other) * self

    def __add__(self, other: Term) -> "Expression":
        right = _expression(other)
        return Expression(
            f"{self.formula} + {right.formula}",
            f"{self.numbers} + {right.numbers}",
            self.value + right.value,
            is_sum=True,
            symbols=self.symbols | right.symbols,
        )

    def working(self) -> str:
        """Return "formula = numbers = value", without repetitions."""
        steps = [self.formula, self.numbers, f"{self.value:,}"]
        return " = ".join(step for index, step in enumerate(steps) if index == 0 or step != steps[index - 1])


def symbol(name: str, value: int, meaning: str) -> Expression:
    return Expression(name, str(value), value, symbols={name: (value, meaning)})


def _expression(term: Term) -> Expression:
    return term if isinstance(term, Expression) else Expression(str(term), str(term), term)


def _factor(expression: Expression, text: str) -> str:
    return f"({text})" if expression.is_sum else text
