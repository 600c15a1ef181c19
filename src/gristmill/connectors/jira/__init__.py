"""jira."""
