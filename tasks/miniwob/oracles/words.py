"""The oracle of a task with synonyms."""

from __future__ import annotations

from selfsurf.browser_env import Action, Click, Observation
from selfsurf.tasks.miniwob.oracles.base import elements, oracle, said, submit

SYNONYMS = [
    set(line.split())
    for line in """
    big large huge enormous gigantic
    small tiny little mini petite
    red scarlet crimson vermillion
    happy cheerful joyful gleeful delighted
    sad unhappy sorrowful miserable tragic
    angry mad furious irritated
    evil wicked immoral sinful corrupt depraved
    wrong incorrect mistaken erroneous
    real genuine actual
    strange odd peculiar unusual weird
    stop cease halt end finish
    scared terrified panicked fearful frightened afraid
    quiet calm peaceful serene mild
    old aged archaic
    love like adore favor
    kill murder assassinate
    keep retain preserve sustain maintain
    hide conceal camouflage
    hate despise loathe detest dislike
    funny humorous amusing comical laughable
    fat fleshy plump chubby
    stupid dumb dull unwise
    delicious savory delectable appetizing
    cut slice carve chop
    brave courageous fearless
    begin start initiate launch
    answer reply response
    television televisions TV TVs
    house home houses homes
    fire flame fires flames
    pig pork swine
    rabbit rabbits bunny bunnies
    car cars automobile automobiles vehicle vehicles
    """.strip().splitlines()
]
"""Groups of words with similar meaning."""


def alike(a: str, b: str) -> bool:
    """Whether two words have a similar meaning."""
    return a == b or any(a in group and b in group for group in SYNONYMS)


@oracle("click-checkboxes-soft")
def click_checkboxes_soft(obs: Observation) -> Action | None:
    """Tick the boxes whose word is a synonym of a word in the goal, then submit."""
    listed = said(obs, r"^Select words similar to (.*) and click Submit").split(", ")
    for box in elements(obs, "checkbox"):
        meant = next((word for word in listed if alike(word, box["name"])), None)
        if (meant is not None) != ("checked" in box["states"]):
            why = f'means much the same as "{meant}"' if meant else "means none of what the goal lists"
            return Click(id=box["id"], reason=f'"{box["name"]}" {why}.')
    return submit(obs, f"All words like {', '.join(listed)} are ticked, so Submit is next.")
