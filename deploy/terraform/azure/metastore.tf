# The database of the Hive metastore. EventLake creates the metastore's schema in it on first use.

resource "random_password" "metastore" {
  count  = var.create_metastore ? 1 : 0
  length = 32
  # Clusters have it in a Java property, where these need no quotes.
  override_special = "-_"
}

resource "azurerm_mysql_flexible_server" "metastore" {
  # checkov:skip=CKV_AZURE_94:The metastore can be made again from the lake with `eventlake repair`; copies in a second region are the user's choice.
  count               = var.create_metastore ? 1 : 0
  name                = local.unique_name
  resource_group_name = data.azurerm_resource_group.lake.name
  location            = var.location
  tags                = var.tags

  version                = "8.0.21"
  sku_name               = var.metastore_sku
  administrator_login    = var.metastore_user
  administrator_password = random_password.metastore[0].result
  backup_retention_days  = 7

  lifecycle {
    # Azure chooses a zone when none is given.
    ignore_changes = [zone]
  }
}

resource "azurerm_mysql_flexible_database" "metastore" {
  count               = var.create_metastore ? 1 : 0
  name                = "hive"
  resource_group_name = data.azurerm_resource_group.lake.name
  server_name         = azurerm_mysql_flexible_server.metastore[0].name
  charset             = "latin1"
  collation           = "latin1_swedish_ci"
}

# Some tables of Hive's schema have no primary key, and Hive's scripts do not expect an invisible one.
# lower_case_table_names stays at Azure's default, 1, which works: the provider cannot set it.
resource "azurerm_mysql_flexible_server_configuration" "metastore" {
  for_each = var.create_metastore ? {
    require_secure_transport           = "ON"
    tls_version                        = "TLSv1.2,TLSv1.3"
    sql_generate_invisible_primary_key = "OFF"
  } : {}
  name                = each.key
  value               = each.value
  resource_group_name = data.azurerm_resource_group.lake.name
  server_name         = azurerm_mysql_flexible_server.metastore[0].name
}

resource "azurerm_mysql_flexible_server_firewall_rule" "metastore" {
  for_each            = toset(var.create_metastore ? var.allowed_ips : [])
  name                = "allow-${replace(each.value, ".", "-")}"
  resource_group_name = data.azurerm_resource_group.lake.name
  server_name         = azurerm_mysql_flexible_server.metastore[0].name
  start_ip_address    = each.value
  end_ip_address      = each.value
}
