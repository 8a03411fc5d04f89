"""One colour per class, the same in every figure."""

import colorsys

Color = tuple[int, int, int]

# Of Okabe and Ito, and four more: distinct for everyone, visible on photos.
_FIRST: tuple[Color, ...] = (
    (0, 158, 255),
    (255, 111, 0),
    (0, 190, 130),
    (230, 80, 170),
    (255, 200, 0),
    (120, 94, 240),
    (86, 220, 233),
    (215, 38, 56),
    (150, 205, 50),
    (165, 110, 60),
)
_GOLDEN = 0.618033988749895  # of a turn: the hues of neighbouring classes are far apart


def class_color(label: int) -> Color:
    """Return the colour of a class by its number."""
    if label < len(_FIRST):
        return _FIRST[label]
    saturation, value = ((0.85, 1.0), (0.6, 0.95), (0.95, 0.75))[label % 3]
    red, green, blue = colorsys.hsv_to_rgb(label * _GOLDEN % 1.0, saturation, value)
    return round(255 * red), round(255 * green), round(255 * blue)


def text_color(background: Color) -> Color:
    """Return black or white, whichever has the higher contrast (WCAG's relative luminance)."""
    linear = [(part / 255) ** 2.2 for part in background]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return (0, 0, 0) if luminance > 0.179 else (255, 255, 255)
