"""The JSON of requests and responses, one module per resource. Field names are public; class names show in `/openapi.json`."""
