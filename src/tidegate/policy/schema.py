"""The JSON Schema of policy files, from the same model that checks them."""

from __future__ import annotations

from tidegate.policy.document import Document

TITLE = "Tidegate policy"


def json_schema() -> dict[str, object]:
    """The schema with which an editor completes and checks a policy file."""
    schema: dict[str, object] = Document.model_json_schema(by_alias=True)
    _without_null_defaults(schema)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": TITLE}


def _without_null_defaults(schema: object) -> None:
    """Removes defaults that nobody may write, which an editor would put in."""
    if isinstance(schema, dict):
        if "default" in schema and schema["default"] is None:
            del schema["default"]
        for part in schema.values():
            _without_null_defaults(part)
    elif isinstance(schema, list):
        for part in schema:
            _without_null_defaults(part)
