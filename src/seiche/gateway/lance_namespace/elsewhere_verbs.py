"""Tables that lie outside of the lake, through the Lance Namespace interface: they have a name here, and no more."""

from typing import Any

import lance_namespace as lance

from seiche.errors import NotFound
from seiche.lake.engines.answers import answering, asked
from seiche.lake.engines.catalog import id_of
from seiche.lake.engines.lance_namespace import LakeNamespace
from seiche.lake.objects.names import Name

__all__ = ["ElsewhereVerbs"]


class ElsewhereVerbs(LakeNamespace):
    """The part of a namespace that is about tables of others. Clients commit to them where they lie."""

    def register_table(self, request: Any) -> lance.RegisterTableResponse:
        """Give a Lance table that lies elsewhere a name in the lake. It stays there, and clients commit to it there."""
        name, place = id_of(request), asked(request, "location")
        if (asked(request, "mode") or "create").lower() != "create":
            raise lance.UnsupportedOperationError("a table is registered under a new name: drop the old one first")
        with answering("table"):
            self._lake.states.outside.check(str(place), self._lake.store.native_uri())
            self._writing(
                lambda transaction: transaction.register_table(
                    name, place, "federated", properties=asked(request, "properties")
                )
            )
            row = self._row_of(name)
        return lance.RegisterTableResponse(location=row.location, properties=dict(row.properties) or None)

    def deregister_table(self, request: Any) -> lance.DeregisterTableResponse:
        """Forget a table that lies elsewhere. Refused for others: their files would be the lake's garbage."""
        name = id_of(request)
        with answering("table"):
            row = self._row_of(name)
            if row.type == "managed":
                return super().deregister_table(request)
            self._writing(lambda transaction: transaction.drop_table(name))
        return lance.DeregisterTableResponse(id=list(name), location=row.location)

    def foreign(self, name: Name) -> lance.DescribeTableResponse | None:
        """A table that lies elsewhere, if it is one: its versions are none of the lake's."""
        try:
            row = self._row_of(name)
        except NotFound:
            return None
        if row.type == "managed" or row.format != "lance":
            return None
        options = dict(self._lake.store.native_options)
        return lance.DescribeTableResponse(
            location=row.location, storage_options=options or None, properties=dict(row.properties) or None
        )
