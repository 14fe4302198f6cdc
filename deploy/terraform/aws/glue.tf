# EventLake makes its databases and tables itself, so that here are only the permissions for it.

locals {
  glue_arn = "arn:${local.partition}:glue:${var.aws_region}:${local.catalog_id}"
  # The last is that of the sync reports.
  databases = concat(var.glue_databases, ["__segment_datalake"])
}

data "aws_iam_policy_document" "glue" {
  statement {
    sid       = "ListDatabases"
    actions   = ["glue:GetDatabases"]
    resources = ["${local.glue_arn}:catalog", "${local.glue_arn}:database/*"]
  }

  statement {
    sid = "KeepOwnTables"
    actions = [
      "glue:BatchCreatePartition",
      "glue:BatchDeletePartition",
      "glue:BatchGetPartition",
      "glue:BatchUpdatePartition",
      "glue:CreateDatabase",
      "glue:CreateTable",
      "glue:DeleteTable",
      "glue:GetDatabase",
      "glue:GetPartition",
      "glue:GetPartitions",
      "glue:GetTable",
      "glue:GetTables",
      "glue:UpdateDatabase",
      "glue:UpdatePartition",
      "glue:UpdateTable",
    ]
    resources = concat(
      ["${local.glue_arn}:catalog"],
      [for name in local.databases : "${local.glue_arn}:database/${name}"],
      [for name in local.databases : "${local.glue_arn}:table/${name}/*"],
    )
  }
}
