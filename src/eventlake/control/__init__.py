"""The control plane below HTTP: database, workspace, schedules, runs. It imports no Spark."""
