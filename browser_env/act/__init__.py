"""From an action to its effect on a page: finding the target, carrying the action out, settling."""
