"""Several processes that train one model: their tasks, the channel, and the launcher."""
