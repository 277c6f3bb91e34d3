"""The client: a lake whose commits go through a server. Knows nothing of the server but the protocol."""

from seiche.service.client.remote import RemoteLake
from seiche.service.connecting import connect

__all__ = ["RemoteLake", "connect"]
