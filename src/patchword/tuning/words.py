"""Estimates in words: round numbers, since more digits would promise more than was measured."""


def about_time(seconds: float) -> str:
    """Return e.g. 40 seconds, 12 minutes, 3.5 hours."""
    for size, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * size:
            return f"{_two_digits(seconds / size)} {name}"
    return f"{_two_digits(seconds)} seconds"


def _two_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def amount(number: float) -> str:
    """Return e.g. 4.3 G: multiply-accumulates with two or three digits."""
    for size, name in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g} {name}"
    return f"{number:.0f}"


def counted(number: int, thing: str) -> str:
    """Return e.g. 1 epoch, 2 classes."""
    ending = "" if number == 1 else "es" if thing.endswith("s") else "s"
    return f"{number:,} {thing}{ending}"
