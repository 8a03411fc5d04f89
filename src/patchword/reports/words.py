"""Numbers as people say them."""


def percent(share: float, digits: int = 2) -> str:
    return f"{100 * share:.{digits}f}%"


def amount(number: int) -> str:
    """205,066 but 11.16 million, 17.56 billion"""
    for size, name in ((10**12, "trillion"), (10**9, "billion"), (10**6, "million")):
        if number >= size:
            return f"{number / size:.2f} {name}"
    return f"{number:,}"


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def counted(number: int, thing: str) -> str:
    """1 epoch, 2 epochs"""
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def shortened(text: str, most: int) -> str:
    """One printable line of at most so many characters."""
    plain = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return plain if len(plain) <= most else plain[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"
