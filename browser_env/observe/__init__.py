"""From a page to an observation: the in-page pass, the outline, its deltas, screenshots and marks."""
