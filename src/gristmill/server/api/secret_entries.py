"""Which secrets a request may contain: plain ones, and references if the caller is the operator.

A reference leads to a secret of the server, which is then sent to an address of the same request. So an admin of another organisation
must not enter one, and the operator only those that the settings allow.
"""

from collections.abc import Iterable

from gristmill.errors import Forbidden
from gristmill.identity import LOCAL_ORG
from gristmill.secret_references import SecretResolver, is_reference
from gristmill.server.api.caller import Caller
from gristmill.settings import Settings


def check_secrets(caller: Caller, settings: Settings, values: Iterable[object]) -> None:
    """Raise unless the caller may enter these values as secrets."""
    references = [value for value in values if isinstance(value, str) and is_reference(value)]
    if not references:
        return
    if caller.role != "admin" or caller.org != LOCAL_ORG:
        raise Forbidden(
            "Only the operator can refer to secrets of the server (file:, env:, command:). Enter the secret itself.",
            code="secret_reference_forbidden",
        )
    for reference in references:
        SecretResolver(settings).check(reference)
