"""Images that arrive as bytes: read like files, and refused in plain words if they are too large or no images."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from patchword.core.errors import UserError
from patchword.data.image.image_file import decode_upload, read_image

MOST = 16_000_000


def png(width: int, height: int) -> bytes:
    """A PNG that claims a size in its header and has no pixels."""
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(b"\0" * 99))]
    chunks = [struct.pack(">I", len(data)) + kind + data for kind, data in parts]
    ends = [struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk + end for chunk, end in zip(chunks, ends, strict=True))


def encoded(kind: str) -> bytes:
    noise = np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise).save(file, kind)
    return file.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM"])
@pytest.mark.parametrize("channels", [1, 3])
def test_bytes_are_read_like_a_file(tmp_path, kind, channels):
    path = tmp_path / "a"
    path.write_bytes(encoded(kind))
    found = decode_upload(path.read_bytes(), channels, MOST)
    assert np.array_equal(np.asarray(found), np.asarray(read_image(path, channels)))


@pytest.mark.parametrize(("width", "height"), [(4_001, 4_000), (60_000, 60_000), (2**31 - 1, 2**31 - 1)])
def test_a_bomb_is_refused_by_its_header(width, height):
    with pytest.raises(UserError, match="too many pixels: expected at most 16,000,000 pixels"):
        decode_upload(png(width, height), 3, MOST)


def test_the_limit_may_be_reached():
    assert decode_upload(encoded("PNG"), 3, 2_000).size == (50, 40)
    with pytest.raises(UserError, match="too many pixels"):
        decode_upload(encoded("PNG"), 3, 1_999)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "TIFF"])
def test_half_a_file_is_refused(kind):
    with pytest.raises(UserError, match="not an image that can be read"):
        decode_upload(encoded(kind)[:500], 3, MOST)


@pytest.mark.parametrize(
    "content", [b"", b"words", b"%PDF-1.7", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"\x89PNG"]
)
def test_what_is_no_image_is_refused(content):
    with pytest.raises(UserError, match="not an image that can be read") as error:
        decode_upload(content, 1, MOST)
    assert "0x" not in str(error.value)


@pytest.mark.filterwarnings("ignore::UserWarning")  # of Pillow, about the tags of a TIFF
def test_wrong_bytes_never_end_in_another_error():
    random, refused = np.random.default_rng(0), 0
    for kind in ("PNG", "JPEG", "TIFF", "GIF"):
        for _ in range(40):
            content = np.frombuffer(encoded(kind), np.uint8).copy()
            content[random.integers(0, 120, 6)] = random.integers(0, 256, 6)
            try:
                decode_upload(content.tobytes(), 3, MOST)
            except UserError:
                refused += 1
    assert refused > 80
