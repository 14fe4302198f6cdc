# The first three are EventLake's own settings, by their own names and with their own rules.

variable "storage_account" {
  description = "The lake's storage account: made here, or an existing one with create_storage_account = false."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9]{3,24}$", var.storage_account))
    error_message = "storage_account must be 3 to 24 lower-case letters and digits."
  }
}

variable "storage_container" {
  description = "The lake's own container, made here."
  type        = string
  default     = "lake"

  validation {
    condition     = can(regex("^[a-z0-9]+(-[a-z0-9]+)*$", var.storage_container)) && length(var.storage_container) >= 3 && length(var.storage_container) <= 63
    error_message = "storage_container must be 3 to 63 lower-case letters, digits and single hyphens."
  }
}

variable "metastore_user" {
  description = "The administrator of the metastore's database server."
  type        = string
  default     = "eventlake"

  validation {
    condition     = can(regex("^[A-Za-z][A-Za-z0-9_]{0,31}$", var.metastore_user))
    error_message = "metastore_user must begin with a letter and have up to 32 letters, digits and underscores."
  }
}

variable "resource_group" {
  description = "An existing resource group, in which everything is made."
  type        = string
}

variable "location" {
  description = "The Azure region of everything, such as westeurope."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9]+$", var.location))
    error_message = "location must be the short name of a region, such as westeurope."
  }
}

variable "name" {
  description = "What the names of the key vault, the database server and the service principal begin with."
  type        = string
  default     = "eventlake"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,15}[a-z0-9]$", var.name))
    error_message = "name must be 3 to 17 lower-case letters, digits and hyphens, and begin with a letter."
  }
}

variable "create_storage_account" {
  description = "Make the storage account; with false, an existing one gets the container and the role assignment."
  type        = bool
  default     = true
}

variable "replication" {
  description = "How a new storage account is replicated."
  type        = string
  default     = "ZRS"

  validation {
    condition     = contains(["LRS", "ZRS", "GRS", "GZRS", "RAGRS", "RAGZRS"], var.replication)
    error_message = "replication must be LRS, ZRS, GRS, GZRS, RAGRS or RAGZRS."
  }
}

variable "deleted_days" {
  description = "Days for which deleted objects can be restored, also those of forgotten users."
  type        = number
  default     = 7

  validation {
    condition     = var.deleted_days >= 1 && var.deleted_days <= 30
    error_message = "deleted_days must be 1 to 30."
  }
}

variable "allowed_ips" {
  description = "Public IPv4 addresses from which EventLake and clusters reach the storage account, the key vault and the database."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for one in var.allowed_ips : can(regex("^\\d{1,3}(\\.\\d{1,3}){3}$", one))])
    error_message = "allowed_ips must be single IPv4 addresses, without a prefix length."
  }
}

variable "allowed_subnets" {
  description = "Ids of subnets, with service endpoints for storage and key vaults, from which these are reached, such as those of Databricks."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for one in var.allowed_subnets : can(regex("/subnets/[^/]+$", one))])
    error_message = "allowed_subnets must be ids of subnets."
  }
}

variable "create_metastore" {
  description = "Make a MySQL server with a database for the Hive metastore."
  type        = bool
  default     = true
}

variable "metastore_sku" {
  description = "The size of the database server."
  type        = object({ name = string, tier = string })
  default     = { name = "Standard_B1ms", tier = "Burstable" }
}

variable "create_service_principal" {
  description = "Make a service principal for EventLake, with a secret in the key vault; with false, principal_id gets the role."
  type        = bool
  default     = true
}

variable "principal_id" {
  description = "The object id of an existing service principal or managed identity, which gets the role on the container."
  type        = string
  default     = null

  validation {
    condition     = (var.principal_id == null) == var.create_service_principal
    error_message = "principal_id names an existing identity: set it with create_service_principal = false, and only then."
  }

  validation {
    condition     = var.principal_id == null || can(regex("^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$", var.principal_id))
    error_message = "principal_id must be a GUID."
  }
}

variable "secret_days" {
  description = "Days after which the service principal's secret expires; apply again before that makes a new one."
  type        = number
  default     = 180

  validation {
    condition     = var.secret_days >= 30 && var.secret_days <= 730
    error_message = "secret_days must be 30 to 730."
  }
}

variable "tags" {
  description = "Tags for everything that has tags."
  type        = map(string)
  default     = {}
}
