"""`selfsurf shell`: goals given one after the other in one browser session.

`main.py` is the command and its loop, `orders.py` what a line that begins with `/` does, `goal.py` plays one goal as
an episode, `tabs.py` is the browser session that is kept, `folder.py` what it leaves on disk, `reader.py` who types.
"""
