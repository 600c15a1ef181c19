"""Ways to read a stream completely, by what the tool can list by: time of change, id, minutes of a query, git trees."""
