"""Every kind of connector, by name."""

from gristmill.connectors.kind import Kind

KINDS: dict[str, Kind] = {kind.name: kind for kind in ()}
