"""Real pages to measure on: which they are, where they come from, how they are installed and served.

`table.PAGES` lists them; `serve.Pages` opens them on loopback addresses and stops everything at the end. Nothing here
knows what is measured.
"""
