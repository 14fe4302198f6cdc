# The database of the Hive metastore. EventLake creates the metastore's schema in it on first use.

resource "random_password" "metastore" {
  count  = var.create_metastore ? 1 : 0
  length = 32
  # Clusters have it in a Java property, where these need no quotes.
  override_special = "-_"
}

# Not azurerm's: it cannot set lower_case_table_names, which is set when a server is made or never.
# Hive does not find its tables on a server with Azure's default, 1.
resource "azapi_resource" "metastore" {
  count     = var.create_metastore ? 1 : 0
  type      = "Microsoft.DBforMySQL/flexibleServers@2024-12-30"
  name      = local.unique_name
  parent_id = data.azurerm_resource_group.lake.id
  location  = var.location
  tags      = var.tags

  body = {
    sku = {
      name = var.metastore_sku.name
      tier = var.metastore_sku.tier
    }
    properties = {
      version             = "8.0.21"
      administratorLogin  = var.metastore_user
      lowerCaseTableNames = 2
      backup = {
        backupRetentionDays = 7
        geoRedundantBackup  = "Disabled"
      }
    }
  }
  sensitive_body = {
    properties = {
      administratorLoginPassword = random_password.metastore[0].result
    }
  }

  response_export_values = ["properties.fullyQualifiedDomainName"]
}

resource "azurerm_mysql_flexible_database" "metastore" {
  count               = var.create_metastore ? 1 : 0
  name                = "hive"
  resource_group_name = data.azurerm_resource_group.lake.name
  server_name         = azapi_resource.metastore[0].name
  charset             = "latin1"
  collation           = "latin1_swedish_ci"
}

# Some tables of Hive's schema have no primary key, and Hive's scripts do not expect an invisible one.
resource "azurerm_mysql_flexible_server_configuration" "metastore" {
  for_each = var.create_metastore ? {
    require_secure_transport           = "ON"
    tls_version                        = "TLSv1.2,TLSv1.3"
    sql_generate_invisible_primary_key = "OFF"
  } : {}
  name                = each.key
  value               = each.value
  resource_group_name = data.azurerm_resource_group.lake.name
  server_name         = azapi_resource.metastore[0].name
}

resource "azurerm_mysql_flexible_server_firewall_rule" "metastore" {
  for_each            = toset(var.create_metastore ? var.allowed_ips : [])
  name                = "allow-${replace(each.value, ".", "-")}"
  resource_group_name = data.azurerm_resource_group.lake.name
  server_name         = azapi_resource.metastore[0].name
  start_ip_address    = each.value
  end_ip_address      = each.value
}
