"""Execution of actions: mouse, keyboard and DOM, search for targets, waiting until the page has settled."""
