"""What may be asked: each operation is one short story, guards first, then one transaction."""
