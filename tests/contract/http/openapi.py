"""The document that a server gives of itself, and whether an answer is one that it names."""

import json
from dataclasses import dataclass, field
from typing import Any

from jsonschema import Draft202012Validator


@dataclass(frozen=True)
class Got:
    """An answer as it came; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class Contract:
    """An OpenAPI document, and which of its answers were seen."""

    document: dict[str, Any]
    seen: set[tuple[str, str, str]] = field(default_factory=set)

    def named(self) -> set[tuple[str, str, str]]:
        """(method, path, status) of each answer that the document names."""
        return {
            (method, path, status)
            for path, item in self.document["paths"].items()
            for method, operation in item.items()
            if isinstance(operation, dict) and "responses" in operation
            for status in operation["responses"]
        }

    def takes(self, method: str, path: str, question: Any) -> bool:
        """Whether the document allows that body."""
        body = self.document["paths"][path][method]["requestBody"]
        return self._validator(body["content"]["application/json"]["schema"]).is_valid(question)

    def hold(self, method: str, path: str, got: Got) -> None:
        """Fails unless the document names this answer, its headers and the form of its body."""
        key = (method, path, str(got.status))
        assert key in self.named(), (key, got)
        answer = self._resolved(self.document["paths"][path][method]["responses"][key[2]])
        for name, about in answer.get("headers", {}).items():
            if name in got.headers:
                self._validator(about["schema"]).validate(got.headers[name])
            else:
                assert "not where" in about.get("description", ""), (key, name)
        content = answer.get("content")
        if content is None or method == "head":
            assert got.body == b"", key
        else:
            media_type = got.headers["content-type"].partition(";")[0]
            assert media_type in content, (key, media_type)
            text = got.body.decode()
            body = json.loads(text) if media_type.endswith("json") else text
            self._validator(content[media_type]["schema"]).validate(body)
        self.seen.add(key)

    def _resolved(self, answer: dict[str, Any]) -> dict[str, Any]:
        if "$ref" not in answer:
            return answer
        found: dict[str, Any] = self.document["components"]["responses"][
            answer["$ref"].rpartition("/")[2]
        ]
        return found

    def _validator(self, schema: dict[str, Any]) -> Draft202012Validator:
        whole = {"components": self.document["components"], "allOf": [schema]}
        return Draft202012Validator(whole)
