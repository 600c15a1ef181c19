"""The web UI: static files that use only the public API, and the middleware that serves them."""

from gristmill.server.ui.middleware import UiMiddleware

__all__ = ["UiMiddleware"]
