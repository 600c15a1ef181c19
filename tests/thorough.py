"""How much is tried of a promise: enough to notice that it broke, or, with THOROUGH=1, all of it.

Tests with the marker `thorough` say the same for another tool or another step, or say it at length. They run with THOROUGH=1 alone.
"""

import os

IS_THOROUGH = os.environ.get("THOROUGH") == "1"


def examples(usual: int, thorough: int) -> int:
    """How many examples of a property to try."""
    return thorough if IS_THOROUGH else usual
