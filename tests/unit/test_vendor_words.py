"""The words of one vendor stay in the modules for that vendor."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2] / "src/eventlake"
WORD = re.compile(r"(?<![a-zA-Z])(?i:s3|emr|glue|aws|boto\w*)(?![a-z\d])")
AWS = re.compile(
    r"aws\.py|lakes/aws\w*\.py|stores/s3\.py|catalogs/glue\w*\.py|runners/emr\w*\.py"
    # The second implementation does not use the stores, so it reads the errors of S3 itself.
    r"|verify/s3_errors\.py"
    # Workspaces and their storage are on AWS or on Azure.
    r"|databricks/\w+\.py|lakes/databricks\w*\.py"
)
ALLOWED = {
    # The registry names each kind, its module and its extra.
    "lakes/kinds.py": {"aws"},
    "verify/files.py": {"s3"},  # the module above
    "model/settings.py": {"glue"},  # Segment's name of a source's database
    # Columns of Segment's report, of which a lake fills those that it has.
    "model/report.py": {"emr", "s3"},
}


def test_words_of_aws_are_in_its_modules() -> None:
    found = {
        path: {word.lower() for word in WORD.findall((ROOT / path).read_text())}
        for path in (file.relative_to(ROOT).as_posix() for file in ROOT.rglob("*.py"))
        if not AWS.fullmatch(path)
    }
    assert {path: words for path, words in found.items() if words} == ALLOWED


def test_a_word_is_found_in_names_and_texts() -> None:
    for text in ("AwsSettings", "emr_python", "an s3://bucket", "_in_s3", "import boto3", "GLUE"):
        assert WORD.search(text), text
    for text in ("emrysian", "laws", "glued", "# noqa: S301"):
        assert not WORD.search(text), text
