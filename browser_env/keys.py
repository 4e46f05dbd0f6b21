"""Names of keys and chords in Playwright's spelling."""

from __future__ import annotations

_KEYS = {
    "ctrl": "Control", "control": "Control", "cmd": "Meta", "command": "Meta", "meta": "Meta", "alt": "Alt",
    "win": "Meta", "super": "Meta", "option": "Alt", "shift": "Shift", "controlormeta": "ControlOrMeta",
    "enter": "Enter", "return": "Enter", "esc": "Escape", "escape": "Escape", "tab": "Tab", "space": "Space",
    "spacebar": "Space", "backspace": "Backspace", "delete": "Delete", "del": "Delete", "up": "ArrowUp",
    "down": "ArrowDown", "left": "ArrowLeft", "right": "ArrowRight", "arrowup": "ArrowUp", "arrowdown": "ArrowDown",
    "arrowleft": "ArrowLeft", "arrowright": "ArrowRight", "home": "Home", "end": "End", "pageup": "PageUp",
    "pagedown": "PageDown", "pgup": "PageUp", "pgdn": "PageDown", "pgdown": "PageDown", "insert": "Insert",
    "ins": "Insert", "plus": "+", "minus": "-", "numpadenter": "NumpadEnter",
    **{f"f{number}": f"F{number}" for number in range(1, 13)},
}  # fmt: skip

_WRITTEN = {"\n": "Enter", "\r": "Enter", "\r\n": "Enter", "\t": "Tab", " ": "Space"}
"""Keys that may be given as the character they produce."""

_MODIFIERS = frozenset({"Control", "ControlOrMeta", "Meta", "Alt", "Shift"})


def key_chord(key: str) -> str:
    """Return a key or chord in Playwright's spelling: `ctrl+A` -> `Control+a`, `esc` -> `Escape`.

    A letter in a chord is upper-case if and only if Shift is held, as on a keyboard.
    """
    if len(key) == 1 or key in _WRITTEN:
        return _WRITTEN.get(key, key)
    parts = key.split("+") if not key.endswith("++") else [*key[:-2].split("+"), "+"]
    parts = [_WRITTEN.get(part) or _KEYS.get(part.strip().lower(), part.strip()) for part in parts]
    if len(parts) > 1 and len(parts[-1]) == 1:
        parts[-1] = parts[-1].upper() if "Shift" in parts else parts[-1].lower()
    return "+".join(parts)


def pressed_key(chord: str) -> str:
    """Return the last key of a chord in Playwright's spelling, which is pressed while the others are held."""
    return "+" if chord.endswith("+") else chord.rpartition("+")[2]


def held_keys(chord: str) -> list[str]:
    """Return the keys of a chord in Playwright's spelling that are held while the last key is pressed."""
    return [part for part in chord[: -len(pressed_key(chord)) - 1].split("+") if part]


def is_modifier(key: str) -> bool:
    """Whether a key can be held without doing something by itself."""
    return key.removesuffix("Left").removesuffix("Right") in _MODIFIERS
