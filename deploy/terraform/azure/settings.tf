# In a file of its own, which tests evaluate without any provider.

output "settings" {
  description = "The lake's settings, ready to be written to azure.toml."
  # A string of JSON is one of TOML, too.
  value = join("", [for name, value in local.settings : "${name} = ${jsonencode(value)}\n" if value != null])
}

output "databricks_spark_conf" {
  description = "The Spark configuration of a Databricks cluster that reads the lake's tables; its secrets are in a secret scope named eventlake."
  value       = join("", [for name, value in local.spark_conf : "${name} ${value}\n"])
}

locals {
  abfss = "${var.storage_account}.dfs.core.windows.net"

  # The names of the settings of Spark's Hive client, and of hadoop-azure.
  metastore_conf = {
    "spark.hadoop.javax.jdo.option.ConnectionURL"        = "${coalesce(local.settings.metastore_url, "none")}?useSSL=true"
    "spark.hadoop.javax.jdo.option.ConnectionDriverName" = "org.mariadb.jdbc.Driver"
    "spark.hadoop.javax.jdo.option.ConnectionUserName"   = var.metastore_user
    "spark.hadoop.javax.jdo.option.ConnectionPassword"   = "{{secrets/eventlake/eventlake-metastore-password}}"
  }
  storage_conf = {
    "fs.azure.account.auth.type"              = "OAuth"
    "fs.azure.account.oauth.provider.type"    = "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider"
    "fs.azure.account.oauth2.client.endpoint" = "https://login.microsoftonline.com/${local.settings.tenant_id}/oauth2/token"
    "fs.azure.account.oauth2.client.id"       = coalesce(local.settings.client_id, "none")
    "fs.azure.account.oauth2.client.secret"   = "{{secrets/eventlake/eventlake-client-secret}}"
  }
  spark_conf = merge(
    { for name, value in local.metastore_conf : name => value if local.settings.metastore_url != null },
    { for name, value in local.storage_conf : "spark.hadoop.${name}.${local.abfss}" => value if local.settings.client_id != null },
  )
}
