"""Other browser environments, each in a virtual environment of its own, to be measured beside ours.

`scripts.peers.peer.open_peer` is the door.
"""
