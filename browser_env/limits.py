"""Maximum lengths of page texts in an observation."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from selfsurf.browser_env.text import one_line, visible


@dataclass(frozen=True)
class Limits:
    """Maximum lengths of page texts, in characters. The outline marks where it was cut."""

    line: int = 10_000
    """Maximum characters of one text in the outline. The default is five pages of a book; a paragraph has a few
    hundred."""
    page: int = 1_000_000
    """Maximum characters of the outline, and of `page_text`. The default is about 250,000 tokens, more than most models
    read."""
    title: int = 300
    """Maximum characters of a title. The default is also the limit of element names."""
    url: int = 2_000
    """Maximum characters of an address, in observations, events and errors; an event or error has 200 more. The default
    is about what servers and older browsers accept."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"Limits.{name} must be a number of characters above 0, not {value!r}.")

    def note(self, text: str) -> str:
        """Return an event or error on one line, with hidden characters escaped, cut to its limit."""
        return visible(one_line(text, self.url + 200))
