"""Oracles of tasks with shapes: find, count, identify and drag them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from selfsurf.browser_env import Action, Drag, Element, Observation
from selfsurf.tasks.miniwob.oracles.base import click, elements, oracle, outline, said, submit

_LOOK = re.compile(
    r"(?:(\S+) )?(circle|ellipse|rect|polygon|text)( outline)? ([\d.]+)x([\d.]+) at (-?[\d.]+),(-?[\d.]+)$"
)
_KINDS = {"circle": "circle", "rect": "rectangle", "polygon": "triangle"}
_SLOT = 20
"""Distance in pixels between two shapes dragged into the same box."""


@dataclass(frozen=True)
class Shape:
    """A shape as displayed, with its ID if it can be acted on."""

    color: str
    kind: str
    """Kind of shape: `circle`, `rectangle`, `triangle` or `text`."""
    hollow: bool
    width: float
    height: float
    x: float
    """Horizontal position of the center in pixels; `y` is the vertical one."""
    y: float
    id: int | None = None
    text: str = ""

    @property
    def large(self) -> bool:
        """Whether the shape has the larger of the two sizes in the grids of shapes."""
        return self.height > 15

    @property
    def says(self) -> str:
        """Description of the shape, such as `large red circle` or `small blue "K"`."""
        what = f'"{self.text}"' if self.kind == "text" else self.kind
        return f"{'large' if self.large else 'small'} {self.color} {what}"


def read_shape(look: str, element: Element | None = None) -> Shape | None:
    """Parse a shape from a line of the outline or from an element's state; None if it isn't a shape."""
    match = _LOOK.match(look)
    if match is None:
        return None
    color, tag, hollow = match.group(1) or "", match.group(2), match.group(3) is not None
    width, height, x, y = map(float, match.groups()[3:])
    id, text = (element["id"], element["name"]) if element else (None, "")
    return Shape(color, _KINDS.get(tag, tag), hollow, width, height, x, y, id, text)


def drawn_shapes(obs: Observation) -> list[Shape]:
    """Return the shapes that are only drawn, in page order."""
    return [shape for line in outline(obs) if (shape := read_shape(line.text))]


def live_shapes(obs: Observation) -> list[Shape]:
    """Return the shapes that can be clicked or dragged, in page order."""
    found = ((element, state) for element in elements(obs) for state in element["states"])
    return [shape for element, state in found if (shape := read_shape(state, element))]


def fits(shape: Shape, description: str) -> bool:
    """Whether a shape fits a description such as `small green item`, `red letter`, `large 7` or `blue triangle`."""
    *words, what = description.split()
    for word in words:
        if word in ("large", "small"):
            if shape.large != (word == "large"):
                return False
        elif shape.color != word:
            return False
    if what == "item":
        return True
    if what in ("letter", "digit"):
        return shape.kind == "text" and shape.text.isdigit() == (what == "digit")
    if what == "shape":
        return shape.kind != "text"
    return what == (shape.text if shape.kind == "text" else shape.kind)


@oracle("click-shape")
def click_shape(obs: Observation) -> Action | None:
    """Click the first shape that fits the description."""
    description = obs["goal"].removeprefix("Click on a ")
    for shape in live_shapes(obs):
        if fits(shape, description):
            found = [element for element in elements(obs) if element["id"] == shape.id]
            return click(found, f'The {shape.says} is what the goal calls a "{description}".')
    return None


@oracle("count-shape")
def count_shape(obs: Observation) -> Action | None:
    """Count the shapes that fit the description, and press the button with the number."""
    description = said(obs, r"^How many (.+)s are there\?")
    found = [shape.says for shape in live_shapes(obs) if fits(shape, description)]
    listed = f" ({', '.join(found)})" if found else ""
    reason = f'I count {len(found)} of what the goal calls "{description}"{listed}.'
    return click(elements(obs, "button", str(len(found))), reason)


@oracle("identify-shape")
def identify_shape(obs: Observation) -> Action | None:
    """Press the button with the name of the figure."""
    for shape in live_shapes(obs):
        if shape.kind == "text":
            kind = "Number" if shape.text.isdigit() else "Letter"
            return click(elements(obs, "button", kind), f'The figure is a "{shape.text}", which is a {kind.lower()}.')
        kind = shape.kind.capitalize()
        return click(elements(obs, "button", kind), f"The figure is a {shape.color} {shape.kind}.")
    return None


@oracle("drag-circle", "drag-single-shape")
def drag_in_direction(obs: Observation) -> Action | None:
    """Drag the only shape to the given edge of the drawing, where it never starts, then submit."""
    direction = said(obs, r" (left|right|up|down) then")
    for shape in live_shapes(obs):
        there = {"left": shape.x < 22, "right": shape.x > 140, "up": shape.y < 72, "down": shape.y > 150}
        if there.get(direction):
            reason = f"The {shape.kind} has been dragged {direction}, so Submit comes next."
            return submit(obs, reason)
        edges = {"left": (6, shape.y), "right": (155, shape.y), "up": (shape.x, 56), "down": (shape.x, 163)}
        to = edges.get(direction, (shape.x, shape.y))
        reason = f"The {shape.kind} must be dragged {direction}, from {shape.x:g},{shape.y:g} to {to[0]:g},{to[1]:g}."
        return Drag.model_validate({"from": shape.id, "to": to, "reason": reason})
    return None


@oracle("drag-shapes")
def drag_shapes(obs: Observation) -> Action | None:
    """Drag every shape of the given kind into the box and everything else out of it, then submit."""
    kind = said(obs, r"^Drag all (\w+)s into the black box")
    for box in drawn_shapes(obs):
        for number, shape in enumerate(live_shapes(obs)):
            if shape.kind == kind and not within(shape, box):
                return to_slot(shape, box, number, f"goes into the black box, as all {kind}s do")
            if shape.kind != kind and touches(shape, box):
                aside = Shape("", "", True, 160, 20, 82, 62 if box.y - box.height / 2 > 75 else 170)
                return to_slot(shape, aside, number, f"is no {kind}, so it must leave the black box")
        return submit(obs, f"All {kind}s and nothing else are in the box, so Submit is next.")
    return None


@oracle("drag-shapes-2")
def drag_shapes_2(obs: Observation) -> Action | None:
    """Drag the shapes that the goal names into the left box and all others into the right one, then submit."""
    word = said(obs, r"^Drag all (\w+?)(s| shapes) into the left box")
    boxes = sorted((shape for shape in drawn_shapes(obs) if shape.hollow), key=lambda box: box.x)
    if len(boxes) != 2:
        return None
    for number, shape in enumerate(live_shapes(obs)):
        chosen = word in (shape.kind, shape.color)
        box, side = (boxes[0], "left") if chosen else (boxes[1], "right")
        if not within(shape, box):
            why = "goes into" if chosen else f"is not {word}, so it goes into"
            return to_slot(shape, box, number, f"{why} the {side} box")
    return submit(obs, f"Every {word} shape is left and the rest right, so Submit is next.")


def within(shape: Shape, box: Shape) -> bool:
    """Whether both the top left corner and the center of a shape are in the box."""
    left, top = box.x - box.width / 2, box.y - box.height / 2
    xs, ys = (shape.x - shape.width / 2, shape.x), (shape.y - shape.height / 2, shape.y)
    return all(left < x < left + box.width for x in xs) and all(top < y < top + box.height for y in ys)


def touches(shape: Shape, box: Shape) -> bool:
    """Whether any part of a shape is in the box."""
    across, down = (shape.width + box.width) / 2, (shape.height + box.height) / 2
    return abs(shape.x - box.x) < across and abs(shape.y - box.y) < down


def to_slot(shape: Shape, box: Shape, number: int, reason: str) -> Action:
    """Drag the shape to its own position in the box, so that no shape covers another."""
    row = max(int((box.width - 4) // _SLOT), 1)
    x = box.x - box.width / 2 + 13 + _SLOT * (number % row)
    y = box.y - box.height / 2 + 13 + _SLOT * (number // row)
    said = f"The {shape.color} {shape.kind} {reason}."
    return Drag.model_validate({"from": shape.id, "to": (x, y), "reason": said})
