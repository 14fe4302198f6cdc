"""The tracking API: check events, stamp them, append them durably to the raw archive."""
