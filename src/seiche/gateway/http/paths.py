"""Finding the route that a request is for."""

from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from seiche.gateway.http.calls import Route

__all__ = ["Paths"]


class Paths:
    """Routes by method and path. `{name}` in a path stands for one part of it; the first route that fits is taken."""

    def __init__(self, routes: Sequence[Route]) -> None:
        methods: dict[str, dict[str, Route]] = {}
        for route in routes:
            methods.setdefault(route.path, {})[route.method] = route
        # By the number of parts: few routes have the same.
        self._by_length: dict[int, list[tuple[tuple[str, ...], Mapping[str, Route]]]] = {}
        for path, found in methods.items():
            parts = tuple(path.strip("/").split("/"))
            self._by_length.setdefault(len(parts), []).append((parts, found))

    def find(self, method: str, path: str) -> tuple[Route, dict[str, str]] | list[str]:
        """The route and what stands in the places of its path; or, if there is none, the methods that the path has.

        `path` is as it was sent. It is decoded part by part: a slash inside of a name must not lead to another route.
        """
        given = path.removeprefix("/").removesuffix("/").split("/")
        if "%" in path:
            given = [unquote(part) for part in given]
        for parts, methods in self._by_length.get(len(given), ()):
            places = _places(parts, given)
            if places is not None:
                route = methods.get(method)
                return sorted(methods) if route is None else (route, places)
        return []


def _places(parts: Sequence[str], given: Sequence[str]) -> dict[str, str] | None:
    places: dict[str, str] = {}
    for part, text in zip(parts, given, strict=True):
        if part.startswith("{"):
            if not text:
                return None
            places[part[1:-1]] = text
        elif part != text:
            return None
    return places
