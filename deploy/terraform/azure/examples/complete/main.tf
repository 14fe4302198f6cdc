# A storage account, a metastore and a service principal, for one address. Only the first three are
# required, but without allowed_ips or allowed_subnets nobody reaches anything.

terraform {
  required_version = ">= 1.9"

  required_providers {
    azapi = {
      source  = "Azure/azapi"
      version = ">= 2.0, < 3.0"
    }
    azuread = {
      source  = "hashicorp/azuread"
      version = ">= 3.0, < 4.0"
    }
    azurerm = {
      source  = "hashicorp/azurerm"
      version = ">= 4.0, < 5.0"
    }
  }
}

provider "azurerm" {
  subscription_id     = "00000000-0000-0000-0000-000000000000"
  storage_use_azuread = true
  features {}
}

module "eventlake" {
  source = "../.."

  storage_account = "exampleeventlake"
  resource_group  = "eventlake"
  location        = "westeurope"

  allowed_ips = ["203.0.113.10"]
  tags        = { product = "eventlake" }
}

# terraform output -raw settings > azure.toml
output "settings" {
  description = "The lake's settings, ready to be written to azure.toml."
  value       = module.eventlake.settings
}

# The Spark configuration of a cluster that reads the tables.
output "databricks_spark_conf" {
  description = "The Spark configuration of a Databricks cluster that reads the lake's tables."
  value       = module.eventlake.databricks_spark_conf
}
