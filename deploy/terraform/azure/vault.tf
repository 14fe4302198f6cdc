# The secrets, for EventLake's host and for Databricks, whose secret scopes may be key vaults.

resource "azurerm_key_vault" "lake" {
  # checkov:skip=CKV2_AZURE_32:It is closed but for allowed_subnets and allowed_ips; private endpoints are the user's choice.
  # checkov:skip=CKV_AZURE_189:Closed by network rules; whoever applies this reaches it by an address of allowed_ips.
  name                = local.unique_name
  resource_group_name = data.azurerm_resource_group.lake.name
  location            = var.location
  tenant_id           = data.azurerm_client_config.current.tenant_id
  tags                = var.tags

  sku_name                   = "standard"
  rbac_authorization_enabled = true
  purge_protection_enabled   = true
  soft_delete_retention_days = 90

  network_acls {
    default_action             = "Deny"
    bypass                     = "AzureServices"
    ip_rules                   = var.allowed_ips
    virtual_network_subnet_ids = var.allowed_subnets
  }
}

# Whoever applies this writes the secrets.
resource "azurerm_role_assignment" "secrets_officer" {
  scope                = azurerm_key_vault.lake.id
  role_definition_name = "Key Vault Secrets Officer"
  principal_id         = data.azurerm_client_config.current.object_id
}

resource "azurerm_role_assignment" "secrets_user" {
  scope                = azurerm_key_vault.lake.id
  role_definition_name = "Key Vault Secrets User"
  principal_id         = local.principal_id
}

resource "azurerm_key_vault_secret" "client_secret" {
  count           = var.create_service_principal ? 1 : 0
  name            = "eventlake-client-secret"
  value           = azuread_application_password.eventlake[0].value
  content_type    = "AZURE_CLIENT_SECRET"
  expiration_date = azuread_application_password.eventlake[0].end_date
  key_vault_id    = azurerm_key_vault.lake.id

  depends_on = [azurerm_role_assignment.secrets_officer]
}

resource "azurerm_key_vault_secret" "metastore_password" {
  # checkov:skip=CKV_AZURE_41:The password of the database does not expire.
  count        = var.create_metastore ? 1 : 0
  name         = "eventlake-metastore-password"
  value        = random_password.metastore[0].result
  content_type = "METASTORE_PASSWORD"
  key_vault_id = azurerm_key_vault.lake.id

  depends_on = [azurerm_role_assignment.secrets_officer]
}
