"""What the oracles read out of drawings."""

import pytest

from selfsurf.tasks.miniwob.oracles.geometry import angle
from selfsurf.tasks.miniwob.oracles.shapes import Shape, fits, read_shape, within


def element(look, name=""):
    return {"id": 4, "name": name, "states": ("covered", look)}


def test_shapes_are_read_from_lines_and_from_states():
    assert read_shape("black rect outline 80x45 at 96,121.5") == Shape("black", "rectangle", True, 80, 45, 96, 121.5)
    assert read_shape("path 3x3 at 1,1") is None
    assert read_shape("black line from 1,2 to 3,4") is None
    letter = read_shape("green text 6.1x11 at 12,82", element("", "T"))
    assert (letter.kind, letter.text, letter.id, letter.says) == ("text", "T", 4, 'small green "T"')
    assert read_shape("circle 8x8 at -3,82").color == ""


@pytest.mark.parametrize(
    ("description", "matches"),
    [
        ("small green item", "Tc"), ("letter", "Tc"), ("digit", "7"), ("red shape", "o"), ("circle", "o"),
        ("large item", "7o"), ("T", "T"), ("t", ""), ("blue 7", "7"), ("large blue letter", ""), ("triangle", ""),
    ],
)  # fmt: skip
def test_descriptions_fit_what_they_describe(description, matches):
    looks = {"T": "green text 6x11", "c": "green text 5x11", "7": "blue text 11x22", "o": "red circle 20x20"}
    shapes = {key: read_shape(f"{look} at 50,50", element("", key)) for key, look in looks.items()}
    assert "".join(key for key, shape in shapes.items() if fits(shape, description)) == matches


def test_a_shape_is_within_a_box_with_its_corner_and_its_middle():
    box = Shape("black", "rectangle", True, 40, 40, 50, 50)
    assert within(Shape("red", "circle", False, 16, 16, 62, 62), box)
    assert not within(Shape("red", "circle", False, 16, 16, 34, 50), box)


def test_angles_are_between_0_and_180_degrees():
    assert angle((10, 0), (0, 0), (0, -10)) == pytest.approx(90)
    assert angle((-10, -1), (0, 0), (-10, 1)) == pytest.approx(11.42, abs=0.01)
