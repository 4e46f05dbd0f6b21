"""Other browser environments for comparison, each in a virtual environment of its own."""

from selfsurf.scripts.peers.environments import PeerError
from selfsurf.scripts.peers.peer import Peer, open_peer

__all__ = ["Peer", "PeerError", "open_peer"]
