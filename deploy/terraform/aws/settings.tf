# In a file of its own, which tests evaluate without any provider.

output "settings" {
  description = "The lake's settings, ready to be written to aws.toml."
  # A string or a number of JSON is one of TOML, too.
  value = join("", [for name, value in local.settings : "${name} = ${jsonencode(value)}\n" if value != null])
}
