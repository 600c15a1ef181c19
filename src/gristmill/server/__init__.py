"""The HTTP server: REST API, MCP and web UI. They translate and authorise requests; `operations/` decides."""
