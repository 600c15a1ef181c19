"""Kinds of connectors from other packages: entry points of the group `gristmill.connectors`.

    [project.entry-points."gristmill.connectors"]
    notes = "my_package.notes:KIND"

Each names a `ConnectorKind`. A plugin that can't be imported, is something else, has settings that no form can show, or takes the
name of another kind is left out with a warning: it must not keep Gristmill from starting. Connectors of a kind that is gone stay, and their runs fail
with `unknown_connector_type` until the plugin is back.
"""

import logging
from collections.abc import Collection
from importlib.metadata import entry_points

from gristmill.connectors.port import ConnectorKind

log = logging.getLogger(__name__)
GROUP = "gristmill.connectors"


def load_plugins(taken_names: Collection[str]) -> list[ConnectorKind]:
    """The kinds that installed packages offer."""
    kinds: dict[str, ConnectorKind] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            kind = entry.load()
        except Exception as error:  # whatever another package does wrong
            log.warning("The connector plugin %s can't be loaded: %r", entry.value, error)
            continue
        if not isinstance(kind, ConnectorKind):
            log.warning("The connector plugin %s is not a ConnectorKind.", entry.value)
        elif kind.name in taken_names or kind.name in kinds:
            log.warning("The connector plugin %s is left out: %s exists already.", entry.value, kind.name)
        elif _has_forms(kind, entry.value):
            kinds[kind.name] = kind
    return list(kinds.values())


def _has_forms(kind: ConnectorKind, plugin: str) -> bool:
    """Whether its settings can be shown as forms: else no list of kinds could be returned."""
    try:
        kind.json_schemas()
    except Exception as error:
        log.warning(
            "The connector plugin %s is left out: its settings have no JSON schema: %r", plugin, error
        )
        return False
    return True
