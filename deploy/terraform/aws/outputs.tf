locals {
  settings = {
    aws_region      = var.aws_region
    s3_bucket       = coalesce(one(aws_s3_bucket.lake[*].id), var.s3_bucket)
    glue_catalog_id = local.catalog_id
    iam_role_arn    = local.role_arn
    workspace_id    = var.workspace_id
    emr_cluster_id  = local.emr_cluster

    # Runs are in one place: on the cluster that stays, where there is one.
    emr_serverless_application_id = local.has_cluster ? null : one(aws_emrserverless_application.lake[*].id)
    emr_serverless_role_arn       = local.has_cluster ? null : one(aws_iam_role.emr_serverless[*].arn)

    emr_service_role           = var.temporary_clusters ? one(aws_iam_role.emr_service[*].name) : null
    emr_instance_profile       = var.temporary_clusters ? one(aws_iam_instance_profile.emr_instance[*].name) : null
    emr_security_configuration = var.temporary_clusters ? one(aws_emr_security_configuration.lake[*].name) : null
    emr_subnet_id              = var.temporary_clusters ? var.emr_subnet_id : null
    emr_release_label          = var.temporary_clusters ? var.emr_release_label : null
    emr_instance_type          = var.temporary_clusters ? var.emr_instance_type : null
    emr_max_instances          = var.temporary_clusters ? var.emr_instances.maximum : null
  }
}

output "aws_region" {
  description = "The setting aws_region."
  value       = local.settings.aws_region
}

output "s3_bucket" {
  description = "The setting s3_bucket."
  value       = local.settings.s3_bucket
}

output "glue_catalog_id" {
  description = "The setting glue_catalog_id."
  value       = local.settings.glue_catalog_id
}

output "iam_role_arn" {
  description = "The setting iam_role_arn."
  value       = local.settings.iam_role_arn
}

output "workspace_id" {
  description = "The setting workspace_id."
  value       = local.settings.workspace_id
}

output "emr_cluster_id" {
  description = "The setting emr_cluster_id; null when runs are not on a cluster that stays."
  value       = local.settings.emr_cluster_id
}

output "emr_service_role" {
  description = "The service role of clusters; null without any."
  value       = one(aws_iam_role.emr_service[*].name)
}

output "emr_instance_profile" {
  description = "The instance profile of clusters; null without any."
  value       = one(aws_iam_instance_profile.emr_instance[*].name)
}

output "emr_security_configuration" {
  description = "The security configuration of clusters; null without any."
  value       = one(aws_emr_security_configuration.lake[*].name)
}

output "emr_cluster_tags" {
  description = "The tags without which EventLake may not make a temporary cluster."
  value       = local.cluster_tags
}

output "emr_serverless_application_id" {
  description = "The EMR Serverless application; null without one."
  value       = one(aws_emrserverless_application.lake[*].id)
}

output "emr_serverless_role_arn" {
  description = "The role of runs on EMR Serverless; null without it."
  value       = one(aws_iam_role.emr_serverless[*].arn)
}
