"""Statements that grant what a workspace says is missing."""

import re

_MISSING = re.compile(
    r"does not have (?:the )?([A-Z][A-Z_ ,]*[A-Z])(?: privilege| permission)? "
    r"on ([A-Z][A-Za-z ]*?) ['`\"]([^'`\"]+)['`\"]"
)


def quote_name(name: str) -> str:
    """An identifier of SQL, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def quote_text(text: str) -> str:
    """A string literal of SQL, whatever characters it has."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def grant_statement(privileges: str, kind: str, name: str, principal: str) -> str:
    """The statement that grants privileges on an object, by its kind and its dotted name."""
    parts = [name] if kind.upper() == "EXTERNAL LOCATION" else name.split(".")
    target = ".".join(map(quote_name, parts))
    return f"GRANT {privileges} ON {kind.upper()} {target} TO {quote_name(principal)}"


def find_grant(message: str, principal: str) -> str:
    """The statement that grants what an error says is missing; empty if it does not say."""
    match = _MISSING.search(message)
    if match is None:
        return ""
    privileges, kind, name = match[1].replace("_", " "), match[2], match[3]
    return grant_statement(privileges, kind, name, principal)
