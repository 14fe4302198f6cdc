# What Azure is asked for, and the names that the other files share.

data "azurerm_client_config" "current" {}

data "azurerm_resource_group" "lake" {
  name = var.resource_group
}

# Names of key vaults and database servers are unique in all of Azure.
resource "random_string" "suffix" {
  length  = 6
  special = false
  upper   = false
}

locals {
  unique_name = "${var.name}-${random_string.suffix.result}"
  account_id  = var.create_storage_account ? azurerm_storage_account.lake[0].id : data.azurerm_storage_account.lake[0].id
}
