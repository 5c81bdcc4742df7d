"""The JSON Schema of policy files, from the same model that checks them."""

from __future__ import annotations

from tidegate.policy.document import Document

TITLE = "Tidegate policy"


def json_schema() -> dict[str, object]:
    """The schema with which an editor completes and checks a policy file."""
    schema: dict[str, object] = Document.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": TITLE}
