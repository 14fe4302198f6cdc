resource "azurerm_storage_account" "lake" {
  # checkov:skip=CKV_AZURE_33:The account has no queues.
  # checkov:skip=CKV_AZURE_206:How it is replicated is the user's choice (replication).
  # checkov:skip=CKV2_AZURE_1:Keys of Microsoft encrypt it; a key of one's own is the user's choice.
  # checkov:skip=CKV2_AZURE_33:It is closed but for allowed_subnets and allowed_ips; private endpoints are the user's choice.
  # checkov:skip=CKV_AZURE_59:Closed by network rules; clusters outside of a network of their own reach it by their address.
  count               = var.create_storage_account ? 1 : 0
  name                = var.storage_account
  resource_group_name = data.azurerm_resource_group.lake.name
  location            = var.location
  tags                = var.tags

  account_kind             = "StorageV2"
  account_tier             = "Standard"
  account_replication_type = var.replication
  is_hns_enabled           = true

  min_tls_version                 = "TLS1_2"
  https_traffic_only_enabled      = true
  allow_nested_items_to_be_public = false
  # EventLake signs in with its principal; account keys would open everything to whoever has one.
  shared_access_key_enabled       = false
  default_to_oauth_authentication = true
  local_user_enabled              = false
  sftp_enabled                    = false

  infrastructure_encryption_enabled = true

  network_rules {
    default_action             = "Deny"
    bypass                     = ["AzureServices"]
    ip_rules                   = var.allowed_ips
    virtual_network_subnet_ids = var.allowed_subnets
  }

  sas_policy {
    expiration_period = "07.00:00:00"
  }

  blob_properties {
    delete_retention_policy {
      days = var.deleted_days
    }

    container_delete_retention_policy {
      days = var.deleted_days
    }
  }
}

data "azurerm_storage_account" "lake" {
  count               = var.create_storage_account ? 0 : 1
  name                = var.storage_account
  resource_group_name = data.azurerm_resource_group.lake.name
}

resource "azurerm_storage_container" "lake" {
  # checkov:skip=CKV2_AZURE_21:Logs of reads are the account's choice.
  name                  = var.storage_container
  storage_account_id    = local.account_id
  container_access_type = "private"
}

resource "azurerm_storage_management_policy" "lake" {
  count              = var.create_storage_account ? 1 : 0
  storage_account_id = local.account_id

  # A run removes its own stage, and a later one that of a run that died. This is for a lake that
  # nobody syncs any more; no run lasts as long.
  rule {
    name    = "eventlake-stage"
    enabled = true

    filters {
      blob_types   = ["blockBlob"]
      prefix_match = ["${var.storage_container}/segment-stage/"]
    }

    actions {
      base_blob {
        delete_after_days_since_modification_greater_than = 14
      }
    }
  }
}
