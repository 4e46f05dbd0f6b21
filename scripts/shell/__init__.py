"""`selfsurf shell`: a series of goals in one browser session.

`main.py` is the command and its loop, `orders.py` carries out lines that begin with `/`, `goal.py` plays one goal as an
episode, `tabs.py` holds the browser session, `folder.py` stores the session on disk, and `reader.py` reads input.
"""
