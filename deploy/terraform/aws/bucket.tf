resource "aws_s3_bucket" "lake" {
  # checkov:skip=CKV_AWS_18:Access logs are the account's choice; CloudTrail's data events tell more.
  # checkov:skip=CKV_AWS_144:The archive may be large; copying it to a second region is the user's choice.
  # checkov:skip=CKV2_AWS_62:Nothing waits for events of the bucket; EventLake lists what is new.
  count  = var.create_bucket ? 1 : 0
  bucket = var.s3_bucket
  tags   = var.tags
}

resource "aws_s3_bucket_public_access_block" "lake" {
  count                   = var.create_bucket ? 1 : 0
  bucket                  = aws_s3_bucket.lake[0].id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_ownership_controls" "lake" {
  count  = var.create_bucket ? 1 : 0
  bucket = aws_s3_bucket.lake[0].id

  rule {
    object_ownership = "BucketOwnerEnforced"
  }
}

resource "aws_s3_bucket_server_side_encryption_configuration" "lake" {
  count  = var.create_bucket ? 1 : 0
  bucket = aws_s3_bucket.lake[0].id

  rule {
    # One data key for many objects: without it every object costs a call to KMS.
    bucket_key_enabled = var.kms_key_arn != null

    apply_server_side_encryption_by_default {
      sse_algorithm     = var.kms_key_arn == null ? "AES256" : "aws:kms"
      kms_master_key_id = var.kms_key_arn
    }
  }
}

resource "aws_s3_bucket_versioning" "lake" {
  count  = var.create_bucket && var.bucket_versioning ? 1 : 0
  bucket = aws_s3_bucket.lake[0].id

  versioning_configuration {
    status = "Enabled"
  }
}

resource "aws_s3_bucket_lifecycle_configuration" "lake" {
  count  = coalesce(var.bucket_lifecycle, var.create_bucket) ? 1 : 0
  bucket = coalesce(one(aws_s3_bucket.lake[*].id), var.s3_bucket)

  # A run removes its own stage, and a later one that of a run that died. This is for a lake that
  # nobody syncs any more; no run lasts as long.
  rule {
    id     = "eventlake-stage"
    status = "Enabled"

    filter {
      prefix = "segment-stage/"
    }

    expiration {
      days = 14
    }

    noncurrent_version_expiration {
      noncurrent_days = 1
    }
  }

  # The parts of an upload that was never finished are in no listing, and cost all the same.
  rule {
    id     = "eventlake-uploads"
    status = "Enabled"

    filter {}

    abort_incomplete_multipart_upload {
      days_after_initiation = 3
    }
  }

  # What was deleted is gone after a month, as people who asked to be forgotten may expect.
  rule {
    id     = "eventlake-versions"
    status = "Enabled"

    filter {}

    expiration {
      expired_object_delete_marker = true
    }

    noncurrent_version_expiration {
      noncurrent_days = 30
    }
  }

  depends_on = [aws_s3_bucket_versioning.lake]
}

resource "aws_s3_bucket_policy" "lake" {
  count  = var.create_bucket ? 1 : 0
  bucket = aws_s3_bucket.lake[0].id
  policy = data.aws_iam_policy_document.bucket.json

  depends_on = [aws_s3_bucket_public_access_block.lake]
}

data "aws_iam_policy_document" "bucket" {
  statement {
    sid       = "OnlyOverTls"
    effect    = "Deny"
    actions   = ["s3:*"]
    resources = [local.bucket_arn, "${local.bucket_arn}/*"]

    principals {
      type        = "*"
      identifiers = ["*"]
    }

    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }
}

data "aws_iam_policy_document" "objects" {
  # S3 holds the key of an object that is not there against this, too: it answers 404 below the
  # prefixes, and 403 elsewhere.
  statement {
    sid       = "ListOwnPrefixes"
    actions   = ["s3:ListBucket"]
    resources = [local.bucket_arn]

    condition {
      test     = "StringLike"
      variable = "s3:prefix"
      values   = [for prefix in local.prefixes : "${prefix}*"]
    }
  }

  # Tells a bucket in another region from one that is not there.
  statement {
    sid       = "FindBucket"
    actions   = ["s3:GetBucketLocation"]
    resources = [local.bucket_arn]
  }

  statement {
    sid = "KeepOwnObjects"
    actions = [
      "s3:AbortMultipartUpload",
      "s3:DeleteObject",
      "s3:GetObject",
      "s3:ListMultipartUploadParts",
      "s3:PutObject",
    ]
    resources = local.objects
  }
}

data "aws_iam_policy_document" "key" {
  count = var.kms_key_arn == null ? 0 : 1

  statement {
    sid       = "EncryptObjects"
    actions   = ["kms:Decrypt", "kms:GenerateDataKey"]
    resources = [var.kms_key_arn]

    condition {
      test     = "StringEquals"
      variable = "kms:ViaService"
      values   = ["s3.${var.aws_region}.${local.domain}"]
    }
  }
}
