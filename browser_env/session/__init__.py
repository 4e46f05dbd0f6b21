"""The browser and what belongs to one environment of it: contexts, tabs, profiles, the in-page script."""
