"""Screenshots as arrays that keep the PNG they were decoded from, so that saving them needs no encoding."""

from __future__ import annotations

import io
import weakref

import numpy as np
from numpy.typing import NDArray

_PNGS: dict[int, bytes] = {}


def decode_png(data: bytes, size: tuple[int, int]) -> NDArray[np.uint8]:
    """Decode a screenshot to a read-only RGB array of (height, width, 3).

    Args:
        data: a PNG.
        size: width and height in pixels to resize it to.
    """
    from PIL import Image

    image: Image.Image = Image.open(io.BytesIO(data))
    resized = image.size != size
    if resized:
        image = image.resize(size)
    pixels = np.asarray(image.convert("RGB"), dtype=np.uint8)
    pixels.flags.writeable = False
    if not resized:
        key = id(pixels)
        _PNGS[key] = data
        weakref.finalize(pixels, _PNGS.pop, key, None)
    return pixels


def encode_png(pixels: NDArray[np.uint8]) -> bytes:
    """Return an RGB array as a PNG: the PNG that the array was decoded from, or a new one."""
    known = _PNGS.get(id(pixels))
    if known is not None:
        return known
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(np.asarray(pixels, dtype=np.uint8)).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()
