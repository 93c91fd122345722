"""Shared parts of the comparisons with other libraries. Standard library only."""


class PeerError(Exception):
    """Why a comparison cannot continue: what is wrong and what to do."""
