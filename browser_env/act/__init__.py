"""Carries actions out: with mouse, keyboard and DOM; finds their targets; waits until the page has settled."""
