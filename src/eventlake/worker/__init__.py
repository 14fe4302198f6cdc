"""The process that executes the runs of the control plane."""
