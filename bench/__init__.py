"""The benchmark: `eventlake load` beside its peers, on the same files, on this machine."""
