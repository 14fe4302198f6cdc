# EventLake's identity, and all that it may do: read, write and delete the objects of one container.

resource "azuread_application" "eventlake" {
  count        = var.create_service_principal ? 1 : 0
  display_name = var.name
}

resource "azuread_service_principal" "eventlake" {
  count     = var.create_service_principal ? 1 : 0
  client_id = azuread_application.eventlake[0].client_id
}

resource "azuread_application_password" "eventlake" {
  count             = var.create_service_principal ? 1 : 0
  application_id    = azuread_application.eventlake[0].id
  end_date_relative = "${var.secret_days * 24}h"
}

locals {
  principal_id = var.create_service_principal ? azuread_service_principal.eventlake[0].object_id : var.principal_id
}

resource "azurerm_role_assignment" "lake" {
  scope                = azurerm_storage_container.lake.id
  role_definition_name = "Storage Blob Data Contributor"
  principal_id         = local.principal_id
}
