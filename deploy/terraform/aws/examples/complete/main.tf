# Everything at once: a bucket with a key of its own, a cluster that stays, temporary clusters for
# replays, EMR Serverless. Leave out what you do not need; only the first four are required.

terraform {
  required_version = ">= 1.9"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.0, < 7.0"
    }
  }
}

provider "aws" {
  region = "eu-west-1"
}

module "eventlake" {
  source = "../.."

  aws_region   = "eu-west-1"
  s3_bucket    = "example-eventlake"
  workspace_id = "example-workspace"
  trusted_arns = ["arn:aws:iam::123456789012:role/eventlake-host"]

  kms_key_arn = "arn:aws:kms:eu-west-1:123456789012:key/00000000-0000-0000-0000-000000000000"

  create_emr_cluster = true
  temporary_clusters = true
  emr_serverless     = true
  emr_subnet_id      = "subnet-0123456789abcdef0"
  emr_instances      = { minimum = 1, maximum = 4 }

  tags = { product = "eventlake" }
}

# terraform output -raw settings > aws.toml
output "settings" {
  description = "The lake's settings, ready to be written to aws.toml."
  value       = module.eventlake.settings
}
