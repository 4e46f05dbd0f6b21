import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfsurf.browser_env.observe.marks import crop, crops, draw

ROLES = ("button", "link", "textbox", "checkbox", "combobox")


def element(id, x, y, width, height, role="button", **more):
    return {
        "id": id, "role": role, "name": "", "tag": "b", "value": "", "states": (), "bbox": (x, y, width, height),
        "in_viewport": True, "frame": "", "options": (), **more,
    }  # fmt: skip


def white(width, height):
    return np.full((height, width, 3), 255, np.uint8)


def grid(number, columns, across, down, size, left=20, top=20):
    return [
        element(i + 1, left + i % columns * across, top + i // columns * down, *size, role=ROLES[i % 5])
        for i in range(number)
    ]


def drawn(before, after):
    return (before != after).any(axis=2)


def test_the_screenshot_is_left_alone_and_boxes_are_where_elements_are():
    page = white(200, 100)
    marked = draw(page, [element(7, 50, 40, 60, 30)])
    assert (page == 255).all()
    assert marked.shape == page.shape
    changed = drawn(page, marked)
    assert changed[40, 50:110].all()
    assert changed[69, 50:110].all()
    assert changed[40:70, 50].all()
    assert not changed[44:66, 54:106].any()  # nothing inside
    assert changed[:40].any()  # the label
    assert not changed[71:].any()


@pytest.mark.parametrize(
    ("size", "elements"),
    [
        ((1280, 720), grid(40, 4, 120, 65, (60, 20))),
        ((332, 214), grid(30, 6, 52, 38, (13, 13))),
        ((332, 214), grid(12, 2, 40, 30, (13, 13), left=100, top=15)),
        ((800, 600), grid(60, 6, 120, 36, (18, 18))),
    ],
)
def test_labels_hide_neither_elements_nor_each_other(size, elements):
    page = white(*size)
    whole = drawn(page, draw(page, elements))
    boxes = np.zeros_like(whole)
    alone = 0
    for one in elements:
        x, y, width, height = one["bbox"]
        boxes[y : y + height, x : x + width] = True
        assert not whole[y + 3 : y + height - 3, x + 3 : x + width - 3].any()
        only = drawn(page, draw(page, [one]))
        only[y : y + height, x : x + width] = False
        alone += only.sum()
    # Were a label over another one, fewer pixels would be drawn outside of the boxes than by each on its own.
    assert (whole & ~boxes).sum() >= 0.97 * alone


def test_colours_tell_roles_apart_and_white_digits_can_be_read_on_them():
    page = white(400, 300)
    elements = grid(5, 5, 70, 50, (30, 20))
    marked = draw(page, elements)
    by_role = {tuple(marked[int(y), int(x)]) for x, y in (one["bbox"][:2] for one in elements)}
    assert len(by_role) == 5
    cycling = draw(page, [{**one, "role": "link"} for one in elements], colours="id")
    assert len({tuple(cycling[int(y), int(x)]) for x, y in (one["bbox"][:2] for one in elements)}) == 5
    for colour in by_role:
        linear = [(c / 255 / 12.92 if c / 255 <= 0.03928 else ((c / 255 + 0.055) / 1.055) ** 2.4) for c in colour]
        luminance = np.dot(linear, [0.2126, 0.7152, 0.0722])
        assert 1.05 / (luminance + 0.05) >= 4.5


def test_what_is_out_of_view_or_covered_is_not_marked_unless_asked_for():
    page = white(200, 200)
    away = element(1, 50, 50, 30, 20, in_viewport=False)
    under = element(2, 50, 100, 30, 20, states=("covered",))
    assert (draw(page, [away, under]) == page).all()
    assert drawn(page, draw(page, [away], viewport_only=False)).any()
    assert drawn(page, draw(page, [under], covered=True)).any()


a_number = st.floats(-400, 900, allow_nan=False)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.builds(element, st.integers(0, 99999), a_number, a_number, a_number, a_number), max_size=12),
    st.integers(1, 400),
    st.integers(1, 300),
)
def test_any_boxes_on_any_size(elements, width, height):
    page = white(width, height)
    marked = draw(page, elements, viewport_only=False)
    assert marked.shape == page.shape
    for id, part in crops(page, elements).items():
        assert id in {one["id"] for one in elements}
        assert part.size


def test_a_hundred_marks_are_quick():
    page = white(1280, 720)
    elements = grid(100, 10, 120, 65, (60, 20))
    draw(page, elements)
    times = []
    for _ in range(10):
        start = time.perf_counter()
        draw(page, elements)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.02  # 2 ms on an idle machine


def test_crops_show_the_element_with_a_margin():
    page = white(100, 80)
    page[30:40, 20:50] = (10, 20, 30)
    part = crop(page, element(1, 20, 30, 30, 10))
    assert part.shape == (26, 46, 3)
    assert (part[8:18, 8:38] == (10, 20, 30)).all()
    assert crop(page, element(1, 20, 30, 30, 10), margin=0).shape == (10, 30, 3)
    assert crop(page, element(1, 90, -5, 30, 10)).shape == (13, 18, 3)  # partly outside
    assert list(crops(page, [element(1, 0, 0, 5, 5), element(2, 0, 500, 5, 5)])) == [1]
    with pytest.raises(ValueError, match=r"Element 2 .* Scroll .* 0, 500, 5, 5"):
        crop(page, element(2, 0, 500, 5, 5))
    with pytest.raises(ValueError, match="Element 3"):
        crop(page, element(3, 10, 10, 0, 5))
    with pytest.raises(ValueError, match="height, width, 3"):
        draw(np.zeros((10, 10), np.uint8), [])


@pytest.mark.parametrize("screenshot", [True, False])
def test_a_real_page_is_marked_without_being_touched(open_page, screenshot):
    html = "<button style='position:absolute;left:100px;top:100px;width:80px;height:30px'>Go</button>"
    env, obs = open_page(html, options={"screenshot": screenshot})
    marked = env.unwrapped.marked()
    assert (marked[100, 100:180] == (200, 30, 30)).all()
    again, *_ = env.step({"action": "wait", "ms": 1})
    if screenshot:
        assert (again["screenshot"] == obs["screenshot"]).all()
        assert (marked == draw(obs["screenshot"], obs["elements"])).all()
