import io

import numpy as np
import pytest
from PIL import Image

from selfsurf.browser_env.observe.screenshot import decode_png, encode_png


def test_a_screenshot_is_written_down_as_it_came(open_page, tmp_path):
    _, obs = open_page("<h1>Hello</h1>", options={"screenshot": True})
    pixels = obs["screenshot"]
    png = encode_png(pixels)
    assert encode_png(pixels) is png  # nothing was encoded
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(png)).convert("RGB")), pixels)
    with pytest.raises(ValueError, match="read-only"):
        pixels[0, 0] = 1


def test_another_array_is_encoded_anew():
    buffer = io.BytesIO()
    Image.new("RGB", (8, 6), "red").save(buffer, "PNG")
    pixels = decode_png(buffer.getvalue(), (8, 6))
    painted = pixels.copy()
    painted[:] = 7
    assert np.array_equal(decode_png(encode_png(painted), (8, 6)), painted)
    assert decode_png(buffer.getvalue(), (4, 3)).shape == (3, 4, 3)


def test_a_screenshot_with_a_secret_is_never_written_as_it_came(open_page):
    from selfsurf.browser_env import Safety

    env, _ = open_page("<input aria-label=p>", options={"safety": Safety(secrets={"p": "hunter2"}), "screenshot": True})
    obs, *_ = env.step({"action": "fill", "id": 1, "text": "<secret:p>"})
    x, y, width, height = (int(side) for side in obs["elements"][0]["bbox"])
    written = decode_png(encode_png(obs["screenshot"]), (800, 600))
    assert np.array_equal(written, obs["screenshot"])
    assert len(np.unique(written[y + 4 : y + height - 4, x + 4 : x + width - 4].reshape(-1, 3), axis=0)) == 1
