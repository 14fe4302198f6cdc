"""The web pages of `eventlake up`: they show what the API's functions return, and add no logic."""
