"""Oracles of tasks with points, lines, angles and circles in a drawing."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from selfsurf.browser_env import Action, Click, Drag, Observation
from selfsurf.tasks.miniwob.oracles.base import click, elements, oracle, submit
from selfsurf.tasks.miniwob.oracles.shapes import Shape, drawn_shapes, live_shapes

_SHIFT = 2
"""Offset in pixels, to the right and down, at which the pages draw a point relative to the click."""
_LEFT, _TOP, _RIGHT, _BOTTOM = 6, 56, 148, 174
"""Bounds of the points of a drawing, in pixels of the viewport."""

Point = tuple[float, float]


def dots(obs: Observation, color: str) -> list[Shape]:
    """Return the small circles of a color."""
    return [shape for shape in drawn_shapes(obs) if (shape.kind, shape.color) == ("circle", color) and shape.width < 9]


def put_dot(obs: Observation, target: Point, drawn: list[Shape], what: str) -> Action | None:
    """Click so that the dot is drawn on the target, or submit if it already is."""
    if any(math.dist(target, (dot.x, dot.y)) < 1 for dot in drawn):
        return submit(obs, f"The blue dot is at {what}, so Submit comes next.")
    x, y = (math.floor(value + 0.5) - _SHIFT for value in target)
    where = f"{target[0]:g},{target[1]:g}"
    reason = f"The dot must be at {what}, {where}; the page draws it {_SHIFT} pixels right of and below the click."
    return Click(x=x, y=y, reason=reason)


def angle(end: Point, vertex: Point, other: Point) -> float:
    """Return the angle at the vertex, in degrees from 0 to 180."""
    first, second = (math.atan2(point[1] - vertex[1], point[0] - vertex[0]) for point in (end, other))
    turn = abs(math.degrees(first - second)) % 360
    return min(turn, 360 - turn)


def pixels_along(vertex: Point, directions: Iterable[float]) -> list[Point]:
    """Return the pixels of the drawing along rays from the vertex, from the farthest to a distance of 8 pixels."""
    found: list[Point] = []
    for direction in directions:
        for far in range(180, 7, -1):
            x = round(vertex[0] + far * math.cos(direction))
            y = round(vertex[1] + far * math.sin(direction))
            if _LEFT <= x <= _RIGHT and _TOP <= y <= _BOTTOM:
                found.append((x, y))
    return found


@oracle("circle-center")
def circle_center(obs: Observation) -> Action | None:
    """Click the middle of the circle, then submit."""
    for circle in drawn_shapes(obs):
        if circle.kind == "circle" and circle.width > 20:
            return put_dot(obs, (circle.x, circle.y), dots(obs, "blue"), "the middle of the circle")
    return None


@oracle("find-midpoint")
def find_midpoint(obs: Observation) -> Action | None:
    """Click halfway between the two black dots, then submit."""
    ends = dots(obs, "black")
    if len(ends) != 2:
        return None
    middle = ((ends[0].x + ends[1].x) / 2, (ends[0].y + ends[1].y) / 2)
    what = f"the middle between {ends[0].x:g},{ends[0].y:g} and {ends[1].x:g},{ends[1].y:g}"
    return put_dot(obs, middle, dots(obs, "blue"), what)


@oracle("right-angle")
def right_angle(obs: Observation) -> Action | None:
    """Click so that the line from the blue dot is perpendicular to its line to the black dot, then submit."""
    black, blue = dots(obs, "black"), dots(obs, "blue")
    if not black or not blue:
        return None
    end, vertex = (black[0].x, black[0].y), (blue[0].x, blue[0].y)
    along = math.atan2(end[1] - vertex[1], end[0] - vertex[0])
    pixels = pixels_along(vertex, (along + math.pi / 2, along - math.pi / 2))

    def off(pixel: Point) -> float:
        """Return a pixel's deviation from a right angle in degrees, plus the uncertainty of half a pixel."""
        return abs(angle(end, vertex, pixel) - 90) + math.degrees(0.5 / math.dist(vertex, pixel))

    best = min(pixels, key=off, default=None)
    what = f"a right angle to the line from {vertex[0]:g},{vertex[1]:g} to {end[0]:g},{end[1]:g}"
    return put_dot(obs, best, blue[1:], what) if best else None


@oracle("bisect-angle")
def bisect_angle(obs: Observation) -> Action | None:
    """Click on the line that bisects the angle at the blue dot, then submit."""
    black, blue = dots(obs, "black"), dots(obs, "blue")
    if len(black) != 2 or not blue:
        return None
    one, other = ((dot.x, dot.y) for dot in black)
    vertex = (blue[0].x, blue[0].y)
    first, second = (math.atan2(y - vertex[1], x - vertex[0]) for x, y in (one, other))
    turn = (second - first + math.pi) % (2 * math.pi) - math.pi
    pixels = pixels_along(vertex, (first + turn / 2,))
    best = min(pixels, key=lambda pixel: abs(angle(one, vertex, pixel) - angle(other, vertex, pixel)), default=None)
    what = f"half the angle at {vertex[0]:g},{vertex[1]:g}"
    return put_dot(obs, best, blue[1:], what) if best else None


@oracle("grid-coordinate")
def grid_coordinate(obs: Observation) -> Action | None:
    """Click the given point of the grid, whose coordinates run from -2 to 2 to the right and upwards."""
    match = re.search(r"\((-?\d),(-?\d)\)", obs["goal"])
    points = live_shapes(obs)
    columns, rows = (sorted({getattr(point, axis) for point in points}) for axis in "xy")
    if match is None or len(columns) != 5 or len(rows) != 5:
        return None
    x, y = map(int, match.groups())
    where = (columns[x + 2], rows[2 - y])
    found = [element for element in elements(obs) for p in points if p.id == element["id"] and (p.x, p.y) == where]
    return click(found, f"({x},{y}) is column {x + 3} from the left and row {3 - y} from the top.")


def drawn_path(obs: Observation) -> tuple[float, float, float, float] | None:
    """Return the bounding box of the drawn line as width, height and center; None if there is no line."""
    match = re.search(r"path outline ([\d.]+)x([\d.]+) at (-?[\d.]+),(-?[\d.]+)", obs["dom"])
    if match is None:
        return None
    width, height, x, y = map(float, match.groups())
    return width, height, x, y


@oracle("draw-circle")
def draw_circle(obs: Observation) -> Action | None:
    """Drag the mouse around the dot in a circle, then submit."""
    radius, corners = 22, 24
    for dot in dots(obs, "green"):
        path = drawn_path(obs)
        if path and abs(path[0] - path[1]) < 4 and path[0] > 30 and math.dist(path[2:], (dot.x, dot.y)) < 2:
            reason = f"The circle is around the dot at {dot.x:g},{dot.y:g}, so Submit comes next."
            return submit(obs, reason)
        # Starts on the left, where there is always room; on the right the circle may leave the drawing.
        turns = (math.pi * (1 + 2 * corner / corners) for corner in range(corners + 1))
        way = [(round(dot.x + radius * math.cos(a), 1), round(dot.y + radius * math.sin(a), 1)) for a in turns]
        reason = f"A circle around {dot.x:g},{dot.y:g} is a drag that stays {radius} pixels away from it."
        return Drag.model_validate({"from": way[0], "via": way[1:-1], "to": way[-1], "reason": reason})
    return None


@oracle("draw-line")
def draw_line(obs: Observation) -> Action | None:
    """Drag the mouse straight through the dot, then submit."""
    flat = "horizontal" in obs["goal"]
    kind = "horizontal" if flat else "vertical"
    for dot in dots(obs, "purple"):
        path = drawn_path(obs)
        long, wide = (path[:2] if flat else path[1::-1]) if path else (0.0, 0.0)
        if path and wide < 3 and long > 60 and abs(path[3] - dot.y if flat else path[2] - dot.x) < 4:
            reason = f"The line is {kind} and runs through the dot at {dot.x:g},{dot.y:g}, so Submit comes next."
            return submit(obs, reason)
        x, y = round(dot.x - 1), round(dot.y - 1)
        start, end = ((_LEFT, y), (_RIGHT, y)) if flat else ((x, _TOP + 2), (x, 160))
        reason = f"A {kind} line through the dot at {dot.x:g},{dot.y:g} goes from {start} to {end}."
        return Drag.model_validate({"from": start, "via": [(x, y)], "to": end, "reason": reason})
    return None
