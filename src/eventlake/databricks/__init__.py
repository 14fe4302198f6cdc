"""All calls to a Databricks workspace, through its SDK; errors are raised as EventLake's."""
