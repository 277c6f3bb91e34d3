"""What the lower layers ask of the gateways without a server.

Found by the entry point `server` of the group `seiche.engines`; nothing below imports the gateways.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seiche.gateway.lance_namespace.namespace import DeskNamespace
    from seiche.lake.lake import Lake

__all__ = ["namespace"]


def namespace(lake: "Lake") -> "DeskNamespace":
    """The namespace that a server would hand out, in this process; see `Lake.namespace`."""
    from seiche.gateway.lance_namespace.desk import Desks
    from seiche.gateway.lance_namespace.namespace import DeskNamespace
    from seiche.lake.engines.declared import Declared

    return DeskNamespace(lake, Desks(lake.store), Declared())
