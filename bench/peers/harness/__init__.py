"""What a comparison of Octile with a peer needs, whoever the peer is. Standard library only."""


class PeerError(Exception):
    """Why a comparison cannot go on: one sentence that says what is wrong and what to do."""
