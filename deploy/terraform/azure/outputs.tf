locals {
  settings = {
    storage_account   = var.storage_account
    storage_container = azurerm_storage_container.lake.name
    tenant_id         = data.azurerm_client_config.current.tenant_id
    client_id         = one(azuread_application.eventlake[*].client_id)
    metastore_url     = var.create_metastore ? "jdbc:mysql://${azapi_resource.metastore[0].output.properties.fullyQualifiedDomainName}:3306/${azurerm_mysql_flexible_database.metastore[0].name}" : null
    metastore_user    = var.create_metastore ? var.metastore_user : null
  }
}

output "storage_account" {
  description = "The setting storage_account."
  value       = local.settings.storage_account
}

output "storage_container" {
  description = "The setting storage_container."
  value       = local.settings.storage_container
}

output "tenant_id" {
  description = "The setting tenant_id."
  value       = local.settings.tenant_id
}

output "client_id" {
  description = "The setting client_id; null with an identity of yours."
  value       = local.settings.client_id
}

output "metastore_url" {
  description = "The setting metastore_url; null without a metastore."
  value       = local.settings.metastore_url
}

output "metastore_user" {
  description = "The setting metastore_user; null without a metastore."
  value       = local.settings.metastore_user
}

output "key_vault" {
  description = "The name of the key vault with the secrets eventlake-client-secret and eventlake-metastore-password."
  value       = azurerm_key_vault.lake.name
}
