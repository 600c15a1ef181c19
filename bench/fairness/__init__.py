"""How long one base waits while another one is busy."""
