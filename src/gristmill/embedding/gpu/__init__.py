"""The local models on a GPU: one process of the machine holds them, and all workers send it their texts (`client.py`)."""
