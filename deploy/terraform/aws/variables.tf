# The first six are EventLake's own settings, by their own names and with their own rules.

variable "aws_region" {
  description = "The region of the bucket, and of everything else here."
  type        = string

  validation {
    condition     = can(regex("^(us(-gov)?|af|ap|ca|cn|il|me|mx|eu|sa)-(central|(north|south)?(east|west)?)-\\d$", var.aws_region))
    error_message = "aws_region must be the name of a region, such as eu-west-1."
  }
}

variable "s3_bucket" {
  description = "The lake's bucket: made here, or an existing one with create_bucket = false."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", var.s3_bucket))
    error_message = "s3_bucket must be 3 to 63 lower-case letters, digits, dots and hyphens."
  }
}

variable "workspace_id" {
  description = "The workspace's id. It is the external id without which nobody assumes the role."
  type        = string

  validation {
    condition     = can(regex("^[A-Za-z0-9][A-Za-z0-9._-]{0,126}$", var.workspace_id))
    error_message = "workspace_id must be up to 127 letters, digits, dots, underscores and hyphens."
  }

  validation {
    # EventLake takes an id of one character; AWS takes no external id so short.
    condition     = length(var.workspace_id) >= 2
    error_message = "workspace_id must have at least 2 characters to be an external id."
  }
}

variable "glue_catalog_id" {
  description = "The account of the Glue catalog; this account when not given."
  type        = string
  default     = null

  validation {
    condition     = var.glue_catalog_id == null || can(regex("^\\d{12}$", var.glue_catalog_id))
    error_message = "glue_catalog_id must be an account's 12 digits."
  }
}

variable "iam_role_arn" {
  description = "An existing role for EventLake, which gets the permissions and keeps its own trust policy; one is made when not given."
  type        = string
  default     = null

  validation {
    condition     = var.iam_role_arn == null || can(regex("^arn:aws[a-z-]*:iam::\\d{12}:role/[\\w+=,.@/-]+$", var.iam_role_arn))
    error_message = "iam_role_arn must be the ARN of a role."
  }
}

variable "emr_cluster_id" {
  description = "An existing EMR cluster for the runs; see create_emr_cluster for a new one. Without either they run where EventLake does."
  type        = string
  default     = null

  validation {
    condition     = var.emr_cluster_id == null || can(regex("^j-[A-Za-z0-9]+$", var.emr_cluster_id))
    error_message = "emr_cluster_id must look like j-2AXXXXXXGAPLF."
  }

  validation {
    condition     = var.emr_cluster_id == null || !var.create_emr_cluster
    error_message = "emr_cluster_id names an existing cluster: it does not go with create_emr_cluster."
  }
}

variable "trusted_arns" {
  description = "Who may assume EventLake's role with the external id: ARNs of the roles or users that EventLake runs as."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for arn in var.trusted_arns : can(regex("^arn:aws[a-z-]*:iam::\\d{12}:(root|(role|user)/[\\w+=,.@/-]+)$", arn))])
    error_message = "trusted_arns must be ARNs of roles, users or accounts, without wildcards."
  }

  validation {
    condition     = length(var.trusted_arns) > 0 || var.iam_role_arn != null
    error_message = "trusted_arns must name who assumes the role, unless iam_role_arn gives an existing one."
  }
}

variable "name" {
  description = "What the names of all roles, policies and clusters begin with; one for each workspace of an account."
  type        = string
  default     = "eventlake"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,39}$", var.name))
    error_message = "name must be up to 40 lower-case letters, digits and hyphens, a letter first."
  }
}

variable "tags" {
  description = "Tags for everything that is made here."
  type        = map(string)
  default     = {}
}

variable "create_bucket" {
  description = "Whether to make the bucket. An existing one keeps its encryption, versions, policy and rules."
  type        = bool
  default     = true
}

variable "data_folders" {
  description = "Folders of tables besides segment-data/, for adopted lakes: the data_folder of their sources."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for folder in var.data_folders : can(regex("^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*$", folder))])
    error_message = "data_folders must be paths in the bucket without a slash at either end, such as segment-data-lake/data."
  }
}

variable "bucket_lifecycle" {
  description = "Whether to set the bucket's lifecycle rules, in the place of any that it has; only for a bucket made here when not given."
  type        = bool
  default     = null
}

variable "bucket_versioning" {
  description = "Whether the bucket that is made keeps replaced and deleted objects for 30 days."
  type        = bool
  default     = true
}

variable "kms_key_arn" {
  description = "A KMS key for the bucket (SSE-KMS) and the disks of clusters; SSE-S3 when not given. An existing bucket's own key must be given, too."
  type        = string
  default     = null

  validation {
    condition     = var.kms_key_arn == null || can(regex("^arn:aws[a-z-]*:kms:[a-z0-9-]+:\\d{12}:key/[A-Za-z0-9-]+$", var.kms_key_arn))
    error_message = "kms_key_arn must be the ARN of a key, not of an alias."
  }
}

variable "glue_databases" {
  description = "The Glue databases that EventLake may make and fill, as names or patterns; each source has its own."
  type        = list(string)
  default     = ["*"]

  validation {
    condition     = length(var.glue_databases) > 0 && alltrue([for name in var.glue_databases : can(regex("^[a-z0-9_*-]+$", name))])
    error_message = "glue_databases must be lower-case names, in which * stands for anything."
  }
}

variable "create_emr_cluster" {
  description = "Whether to make an EMR cluster that stays."
  type        = bool
  default     = false
}

variable "temporary_clusters" {
  description = "Whether EventLake may make a cluster for a replay, and remove it afterwards."
  type        = bool
  default     = false
}

variable "emr_serverless" {
  description = "Whether to make an EMR Serverless application."
  type        = bool
  default     = false
}

variable "emr_release_label" {
  description = "The EMR release. EventLake needs Spark 3.5 or 4 and Python 3.11, which emr-7.1.0 is the first to have."
  type        = string
  default     = "emr-spark-8.1.0"

  validation {
    condition     = can(regex("^emr-(7\\.[1-9]\\d*|spark-([89]|\\d{2})\\.\\d+)\\.\\d+$", var.emr_release_label))
    error_message = "emr_release_label must be emr-7.1.0 or later: earlier releases have no Python 3.11."
  }
}

variable "emr_subnet_id" {
  description = "The subnet of clusters, best a private one with a gateway endpoint for S3."
  type        = string
  default     = null

  validation {
    condition     = var.emr_subnet_id == null || can(regex("^subnet-[0-9a-f]+$", var.emr_subnet_id))
    error_message = "emr_subnet_id must look like subnet-0123456789abcdef0."
  }

  validation {
    condition     = var.emr_subnet_id != null || !(var.create_emr_cluster || var.temporary_clusters)
    error_message = "emr_subnet_id is needed by create_emr_cluster and temporary_clusters."
  }
}

variable "emr_tag_network" {
  description = "Whether to put the tag that EMR's service policy asks for on the subnet and its VPC; say false where you tag them yourself."
  type        = bool
  default     = true
}

variable "emr_instance_type" {
  description = "The type of all of the cluster's instances: of the processor family that EventLake's environment was packed on."
  type        = string
  default     = "m7i.xlarge"

  validation {
    condition     = can(regex("^[a-z0-9-]+\\.[a-z0-9-]+$", var.emr_instance_type))
    error_message = "emr_instance_type must look like m7i.xlarge."
  }
}

variable "emr_volume_size" {
  description = "GiB of disk for each of the cluster's instances."
  type        = number
  default     = 64

  validation {
    condition     = var.emr_volume_size >= 10
    error_message = "emr_volume_size must be at least 10 GiB."
  }
}

variable "emr_instances" {
  description = "Between how many instances, the primary aside, managed scaling keeps the cluster."
  type        = object({ minimum = number, maximum = number })
  default     = { minimum = 1, maximum = 8 }

  validation {
    condition     = 1 <= var.emr_instances.minimum && var.emr_instances.minimum <= var.emr_instances.maximum
    error_message = "emr_instances must be 1 <= minimum <= maximum."
  }
}

variable "emr_idle_timeout" {
  description = "Seconds without work after which the cluster ends itself; never when not given, as its id is a setting of the lake."
  type        = number
  default     = null

  validation {
    condition     = var.emr_idle_timeout == null || try(var.emr_idle_timeout >= 60 && var.emr_idle_timeout <= 604800, false)
    error_message = "emr_idle_timeout must be 60 to 604800 seconds."
  }
}

variable "emr_serverless_maximum" {
  description = "The most that all runs on EMR Serverless have together."
  type        = object({ cpu = string, memory = string })
  default     = { cpu = "64 vCPU", memory = "512 GB" }
}
