# What AWS is asked for, and the names that the other files share.

data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

data "aws_region" "current" {}

locals {
  account   = data.aws_caller_identity.current.account_id
  partition = data.aws_partition.current.partition
  domain    = data.aws_partition.current.dns_suffix

  # All that EventLake ever lists, reads, writes or deletes. A bucket's other folders are not ours.
  own        = ["segment-logs/", "segment-stage/", "segment-data/", "logs/"]
  prefixes   = concat(local.own, [for folder in var.data_folders : "${folder}/"])
  bucket_arn = "arn:${local.partition}:s3:::${var.s3_bucket}"
  objects    = [for prefix in local.prefixes : "${local.bucket_arn}/${prefix}*"]

  catalog_id = coalesce(var.glue_catalog_id, local.account)

  # Known before anything is made, as counts have to be.
  has_cluster  = var.create_emr_cluster || var.emr_cluster_id != null
  has_emr      = var.create_emr_cluster || var.temporary_clusters
  emr_cluster  = try(aws_emr_cluster.lake[0].id, var.emr_cluster_id)
  emr_arn      = "arn:${local.partition}:elasticmapreduce:${var.aws_region}:${local.account}"
  emr_service  = "elasticmapreduce.${local.domain}"
  emr_tag      = "eventlake-workspace"
  managed_tag  = "for-use-with-amazon-emr-managed-policies"
  cluster_tags = merge(var.tags, { (local.emr_tag) = var.workspace_id, (local.managed_tag) = "true" })

  role_name = try(aws_iam_role.eventlake[0].name, reverse(split("/", var.iam_role_arn))[0])
  role_arn  = try(aws_iam_role.eventlake[0].arn, var.iam_role_arn)
}
