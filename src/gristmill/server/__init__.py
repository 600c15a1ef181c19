"""Who asks: each door translates and authorises, and decides nothing."""
