"""Real pages for measurements: their list, sources, installation and serving.

`table.PAGES` lists them; `serve.Pages` serves them on loopback addresses and stops all servers at the end. The package
is independent of the measurements.
"""
