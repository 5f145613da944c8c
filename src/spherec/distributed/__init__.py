"""Several processes: groups that train one model, data in partitions, models in shards."""
