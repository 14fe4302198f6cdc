resource "aws_emr_cluster" "lake" {
  # checkov:skip=CKV2_AWS_7:EMR makes the security groups, and its block of public access keeps them closed.
  count                  = var.create_emr_cluster ? 1 : 0
  name                   = var.name
  release_label          = var.emr_release_label
  applications           = ["Spark"]
  service_role           = aws_iam_role.emr_service[0].arn
  security_configuration = aws_emr_security_configuration.lake[0].name
  log_uri                = "s3://${var.s3_bucket}/logs/"
  tags                   = local.cluster_tags

  keep_job_flow_alive_when_no_steps = true
  unhealthy_node_replacement        = true
  # Nothing lives on a cluster that a new one would not have, and protected ones cannot be replaced.
  termination_protection = false

  ec2_attributes {
    subnet_id        = var.emr_subnet_id
    instance_profile = aws_iam_instance_profile.emr_instance[0].arn
  }

  master_instance_group {
    instance_type = var.emr_instance_type

    ebs_config {
      type = "gp3"
      size = var.emr_volume_size
    }
  }

  core_instance_group {
    instance_type  = var.emr_instance_type
    instance_count = var.emr_instances.minimum

    ebs_config {
      type = "gp3"
      size = var.emr_volume_size
    }
  }

  dynamic "auto_termination_policy" {
    for_each = var.emr_idle_timeout[*]

    content {
      idle_timeout = auto_termination_policy.value
    }
  }

  lifecycle {
    # EventLake adds the steps, and managed scaling decides how many instances there are.
    ignore_changes = [step, core_instance_group[0].instance_count]
  }

  # A cluster fails to start, or to end, when its roles have not yet or no longer their permissions.
  depends_on = [
    aws_ec2_tag.emr,
    aws_iam_role_policy.emr_instance,
    aws_iam_role_policy.emr_service,
    aws_iam_role_policy_attachment.emr_instance,
    aws_iam_role_policy_attachment.emr_service,
  ]
}

resource "aws_emr_managed_scaling_policy" "lake" {
  count      = var.create_emr_cluster ? 1 : 0
  cluster_id = aws_emr_cluster.lake[0].id

  compute_limits {
    unit_type              = "Instances"
    minimum_capacity_units = var.emr_instances.minimum
    maximum_capacity_units = var.emr_instances.maximum
  }
}

resource "aws_emr_security_configuration" "lake" {
  count       = local.has_emr ? 1 : 0
  name_prefix = "${var.name}-"

  configuration = jsonencode({
    InstanceMetadataServiceConfiguration = {
      MinimumInstanceMetadataServiceVersion = 2
      HttpPutResponseHopLimit               = 1
    }
    EncryptionConfiguration = {
      EnableAtRestEncryption = true
      AtRestEncryptionConfiguration = merge(
        { S3EncryptionConfiguration = merge(
          { EncryptionMode = var.kms_key_arn == null ? "SSE-S3" : "SSE-KMS" },
          { for key in var.kms_key_arn[*] : "AwsKmsKey" => key },
        ) },
        { for key in var.kms_key_arn[*] : "LocalDiskEncryptionConfiguration" => {
          EncryptionKeyProviderType = "AwsKms"
          AwsKmsKey                 = key
          EnableEbsEncryption       = true
        } },
      )
      # It would take certificates of yours. Events go from task to task through the bucket, over
      # TLS; between the instances there are counts and names.
      EnableInTransitEncryption = false
    }
  })

  lifecycle {
    create_before_destroy = true
  }
}

data "aws_subnet" "emr" {
  count = local.has_emr ? 1 : 0
  id    = var.emr_subnet_id
}

resource "aws_ec2_tag" "emr" {
  for_each    = toset(local.has_emr && var.emr_tag_network ? ["subnet", "vpc"] : [])
  resource_id = each.key == "subnet" ? var.emr_subnet_id : data.aws_subnet.emr[0].vpc_id
  key         = local.managed_tag
  value       = "true"
}

resource "aws_emrserverless_application" "lake" {
  count         = var.emr_serverless ? 1 : 0
  name          = var.name
  type          = "spark"
  release_label = var.emr_release_label
  tags          = var.tags

  maximum_capacity {
    cpu    = var.emr_serverless_maximum.cpu
    memory = var.emr_serverless_maximum.memory
  }
}

# What EventLake's role may do with these.

resource "aws_iam_role_policy" "steps" {
  count  = local.has_cluster ? 1 : 0
  name   = "steps"
  role   = local.role_name
  policy = data.aws_iam_policy_document.steps[0].json
}

data "aws_iam_policy_document" "steps" {
  count = local.has_cluster ? 1 : 0

  statement {
    sid = "RunOnCluster"
    actions = [
      "elasticmapreduce:AddJobFlowSteps",
      "elasticmapreduce:CancelSteps",
      "elasticmapreduce:DescribeCluster",
      "elasticmapreduce:DescribeStep",
      "elasticmapreduce:ListSteps",
    ]
    resources = ["${local.emr_arn}:cluster/${local.emr_cluster}"]
  }
}

resource "aws_iam_role_policy" "temporary_clusters" {
  count  = var.temporary_clusters ? 1 : 0
  name   = "temporary-clusters"
  role   = local.role_name
  policy = data.aws_iam_policy_document.temporary_clusters[0].json
}

data "aws_iam_policy_document" "temporary_clusters" {
  count = var.temporary_clusters ? 1 : 0

  # A cluster that is yet to be made has no ARN: its tag says whose it will be. EMR asks for the
  # other two when a cluster is made with a tag, and with a time after which it ends itself.
  statement {
    sid = "MakeTaggedCluster"
    actions = [
      "elasticmapreduce:AddTags",
      "elasticmapreduce:PutAutoTerminationPolicy",
      "elasticmapreduce:RunJobFlow",
    ]
    resources = ["*"]

    condition {
      test     = "StringEquals"
      variable = "elasticmapreduce:RequestTag/${local.emr_tag}"
      values   = [var.workspace_id]
    }

    condition {
      test     = "StringEquals"
      variable = "aws:RequestedRegion"
      values   = [var.aws_region]
    }
  }

  statement {
    sid = "RunOnTaggedCluster"
    actions = [
      "elasticmapreduce:AddJobFlowSteps",
      "elasticmapreduce:CancelSteps",
      "elasticmapreduce:DescribeCluster",
      "elasticmapreduce:DescribeStep",
      "elasticmapreduce:ListSteps",
      "elasticmapreduce:TerminateJobFlows",
    ]
    resources = ["${local.emr_arn}:cluster/*"]

    condition {
      test     = "StringEquals"
      variable = "elasticmapreduce:ResourceTag/${local.emr_tag}"
      values   = [var.workspace_id]
    }
  }

  statement {
    sid       = "PassServiceRole"
    actions   = ["iam:PassRole"]
    resources = [aws_iam_role.emr_service[0].arn]

    condition {
      test     = "StringEquals"
      variable = "iam:PassedToService"
      values   = [local.emr_service]
    }
  }

  statement {
    sid       = "PassInstanceRole"
    actions   = ["iam:PassRole"]
    resources = [aws_iam_role.emr_instance[0].arn]

    condition {
      test     = "StringEquals"
      variable = "iam:PassedToService"
      values   = ["ec2.${local.domain}"]
    }
  }

  # An account's first cluster makes the role with which EMR cleans up after clusters.
  statement {
    sid       = "MakeCleanupRole"
    actions   = ["iam:CreateServiceLinkedRole"]
    resources = ["arn:${local.partition}:iam::${local.account}:role/aws-service-role/${local.emr_service}/AWSServiceRoleForEMRCleanup"]

    condition {
      test     = "StringEquals"
      variable = "iam:AWSServiceName"
      values   = [local.emr_service]
    }
  }
}

resource "aws_iam_role_policy" "serverless" {
  count  = var.emr_serverless ? 1 : 0
  name   = "serverless"
  role   = local.role_name
  policy = data.aws_iam_policy_document.serverless[0].json
}

data "aws_iam_policy_document" "serverless" {
  count = var.emr_serverless ? 1 : 0

  statement {
    sid       = "StartRun"
    actions   = ["emr-serverless:StartJobRun"]
    resources = [aws_emrserverless_application.lake[0].arn]
  }

  statement {
    sid       = "FollowRun"
    actions   = ["emr-serverless:CancelJobRun", "emr-serverless:GetJobRun"]
    resources = ["${aws_emrserverless_application.lake[0].arn}/jobruns/*"]
  }

  statement {
    sid       = "PassServerlessRole"
    actions   = ["iam:PassRole"]
    resources = [aws_iam_role.emr_serverless[0].arn]

    condition {
      test     = "StringEquals"
      variable = "iam:PassedToService"
      values   = ["emr-serverless.amazonaws.com"]
    }
  }
}
