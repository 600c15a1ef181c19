"""The pages: static files of this package that speak to the API, and to nothing else."""

from gristmill.server.ui.middleware import UiMiddleware

__all__ = ["UiMiddleware"]
