"""Other browser environments, each in a virtual environment of its own, to be measured beside ours."""

from selfsurf.scripts.peers.environments import PeerError
from selfsurf.scripts.peers.peer import Peer, open_peer

__all__ = ["Peer", "PeerError", "open_peer"]
