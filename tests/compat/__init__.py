"""The compatible APIs, used by the clients that they are made for."""
