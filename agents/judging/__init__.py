"""Models as judges: drafting a specification from a goal, and answering a specification's questions."""
