"""Several processes that train one model: their tasks, and the channel between them."""
