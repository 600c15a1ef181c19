"""The pages: static files of this package that speak to the API, and to nothing else."""

from gristmill.doors.ui.pages import Pages

__all__ = ["Pages"]
