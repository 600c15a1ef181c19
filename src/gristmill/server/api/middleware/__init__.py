"""What every request passes before its route: host guard, then request context, then idempotency."""
