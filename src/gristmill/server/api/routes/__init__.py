"""The REST routes, one module per resource. They translate and delegate; rules live in `operations/`."""
