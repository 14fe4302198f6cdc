# The four roles: EventLake's own, EMR's, that of a cluster's instances, and that of runs on EMR
# Serverless. Managed scaling works with EMR's role and needs none of its own.

resource "aws_iam_role" "eventlake" {
  count              = var.iam_role_arn == null ? 1 : 0
  name               = var.name
  description        = "EventLake: reads and writes the lake, registers tables, starts runs"
  assume_role_policy = data.aws_iam_policy_document.eventlake_trust[0].json
  tags               = var.tags
}

data "aws_iam_policy_document" "eventlake_trust" {
  count = var.iam_role_arn == null ? 1 : 0

  statement {
    sid     = "WithExternalId"
    actions = ["sts:AssumeRole"]

    # A run on EMR takes EventLake's role, too, so that it can do there what it can do elsewhere.
    principals {
      type = "AWS"
      identifiers = concat(
        var.trusted_arns,
        aws_iam_role.emr_instance[*].arn,
        aws_iam_role.emr_serverless[*].arn,
      )
    }

    condition {
      test     = "StringEquals"
      variable = "sts:ExternalId"
      values   = [var.workspace_id]
    }
  }
}

# What EventLake does with a lake, wherever it runs.
resource "aws_iam_policy" "lake" {
  name        = "${var.name}-lake"
  description = "EventLake: the lake's objects and tables"
  policy      = data.aws_iam_policy_document.lake.json
  tags        = var.tags

  lifecycle {
    precondition {
      condition     = data.aws_region.current.region == var.aws_region
      error_message = "aws_region is ${var.aws_region}, and the provider's region is another: set both to the bucket's."
    }
  }
}

data "aws_iam_policy_document" "lake" {
  source_policy_documents = concat(
    [data.aws_iam_policy_document.objects.json, data.aws_iam_policy_document.glue.json],
    data.aws_iam_policy_document.key[*].json,
  )
}

resource "aws_iam_role_policy_attachment" "eventlake" {
  role       = local.role_name
  policy_arn = aws_iam_policy.lake.arn
}

resource "aws_iam_role" "emr_service" {
  count              = local.has_emr ? 1 : 0
  name               = "${var.name}-emr-service"
  description        = "EMR: starts, scales and ends the instances of EventLake's clusters"
  assume_role_policy = data.aws_iam_policy_document.emr_service_trust.json
  tags               = var.tags
}

data "aws_iam_policy_document" "emr_service_trust" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = [local.emr_service]
    }

    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [local.account]
    }

    condition {
      test     = "ArnLike"
      variable = "aws:SourceArn"
      values   = ["${local.emr_arn}:*"]
    }
  }
}

# EMR's own list of what it needs, kept up by AWS; it reaches only what carries the managed tag.
resource "aws_iam_role_policy_attachment" "emr_service" {
  count      = local.has_emr ? 1 : 0
  role       = aws_iam_role.emr_service[0].name
  policy_arn = "arn:${local.partition}:iam::aws:policy/service-role/AmazonEMRServicePolicy_v2"
}

resource "aws_iam_role_policy" "emr_service" {
  count  = local.has_emr ? 1 : 0
  name   = "instances"
  role   = aws_iam_role.emr_service[0].id
  policy = data.aws_iam_policy_document.emr_service[0].json
}

data "aws_iam_policy_document" "emr_service" {
  count = local.has_emr ? 1 : 0
  source_policy_documents = concat(
    data.aws_iam_policy_document.disks[*].json,
    data.aws_iam_policy_document.volumes[*].json,
  )

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
}

resource "aws_iam_role" "emr_instance" {
  count              = local.has_emr ? 1 : 0
  name               = "${var.name}-emr-instance"
  description        = "The instances of EventLake's clusters: the lake, and EventLake's role"
  assume_role_policy = data.aws_iam_policy_document.emr_instance_trust.json
  tags               = var.tags
}

data "aws_iam_policy_document" "emr_instance_trust" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["ec2.${local.domain}"]
    }
  }
}

resource "aws_iam_instance_profile" "emr_instance" {
  count = local.has_emr ? 1 : 0
  name  = aws_iam_role.emr_instance[0].name
  role  = aws_iam_role.emr_instance[0].name
  tags  = var.tags
}

resource "aws_iam_role_policy_attachment" "emr_instance" {
  count      = local.has_emr ? 1 : 0
  role       = aws_iam_role.emr_instance[0].name
  policy_arn = aws_iam_policy.lake.arn
}

resource "aws_iam_role_policy" "emr_instance" {
  count  = local.has_emr ? 1 : 0
  name   = "eventlake"
  role   = aws_iam_role.emr_instance[0].id
  policy = data.aws_iam_policy_document.emr_instance[0].json
}

data "aws_iam_policy_document" "emr_instance" {
  count = local.has_emr ? 1 : 0
  source_policy_documents = concat(
    [data.aws_iam_policy_document.assume.json],
    data.aws_iam_policy_document.disks[*].json,
  )
}

resource "aws_iam_role" "emr_serverless" {
  count              = var.emr_serverless ? 1 : 0
  name               = "${var.name}-emr-serverless"
  description        = "EventLake's runs on EMR Serverless: the lake, and EventLake's role"
  assume_role_policy = data.aws_iam_policy_document.emr_serverless_trust.json
  tags               = var.tags
}

data "aws_iam_policy_document" "emr_serverless_trust" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["emr-serverless.amazonaws.com"]
    }

    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [local.account]
    }

    # Not the one application's ARN: it is made after the role.
    condition {
      test     = "ArnLike"
      variable = "aws:SourceArn"
      values   = ["arn:${local.partition}:emr-serverless:${var.aws_region}:${local.account}:/applications/*"]
    }
  }
}

resource "aws_iam_role_policy_attachment" "emr_serverless" {
  count      = var.emr_serverless ? 1 : 0
  role       = aws_iam_role.emr_serverless[0].name
  policy_arn = aws_iam_policy.lake.arn
}

resource "aws_iam_role_policy" "emr_serverless" {
  count  = var.emr_serverless ? 1 : 0
  name   = "eventlake"
  role   = aws_iam_role.emr_serverless[0].id
  policy = data.aws_iam_policy_document.assume.json
}

data "aws_iam_policy_document" "assume" {
  statement {
    sid       = "TakeRoleOfEventLake"
    actions   = ["sts:AssumeRole"]
    resources = [local.role_arn]
  }
}

# The disks of a cluster: EMR makes them with the key, and an instance opens them with it.
data "aws_iam_policy_document" "disks" {
  count = var.kms_key_arn == null ? 0 : 1

  statement {
    sid = "EncryptDisks"
    actions = [
      "kms:Decrypt",
      "kms:DescribeKey",
      "kms:Encrypt",
      "kms:GenerateDataKey",
      "kms:GenerateDataKeyWithoutPlaintext",
      "kms:ReEncryptFrom",
      "kms:ReEncryptTo",
    ]
    resources = [var.kms_key_arn]
  }
}

data "aws_iam_policy_document" "volumes" {
  count = var.kms_key_arn == null ? 0 : 1

  statement {
    sid       = "LendKeyToVolumes"
    actions   = ["kms:CreateGrant"]
    resources = [var.kms_key_arn]

    condition {
      test     = "Bool"
      variable = "kms:GrantIsForAWSResource"
      values   = ["true"]
    }
  }
}
