"""Who does, from elsewhere: what teams keep in GitHub, GitLab, Jira and Confluence, kept in step."""
