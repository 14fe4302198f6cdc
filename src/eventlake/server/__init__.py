"""The server of `eventlake up`: the HTTP API, the collector in front of it, and the loops."""
