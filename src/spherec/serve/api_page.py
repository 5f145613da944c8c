"""The page that describes the API: plain HTML from the OpenAPI schema, without scripts and without other hosts."""

import json
from collections.abc import Mapping
from html import escape
from typing import Any

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 2.5rem; border-bottom: 1px solid #8886; }
code, pre { font: 14px/1.5 ui-monospace, monospace; }
pre { overflow-x: auto; border: 1px solid #8886; padding: .75rem; }
table { border-collapse: collapse; } td, th { text-align: left; padding: .2rem 1rem .2rem 0; vertical-align: top; }
"""


def draw_api_page(schema: Mapping[str, Any]) -> str:
    """Return the page for an OpenAPI schema."""
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(schema['info']['title'])}: HTTP</title>",
        f'<meta name=viewport content="width=device-width"><style>{_STYLE}</style>',
        f"<h1>{escape(schema['info']['title'])} {escape(schema['info']['version'])}</h1>",
        f"<p>{escape(schema['info']['summary'])} The same as data: <a href=openapi.json>openapi.json</a>.</p>",
    ]
    types = schema.get("components", {}).get("schemas", {})
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            parts.append(f"<h2><code>{method.upper()} {escape(path)}</code></h2>")
            parts.append(f"<p>{escape(operation.get('description', ''))}</p>")
            rows = [
                _row(one["name"], one["schema"], one.get("description", "")) for one in operation.get("parameters", ())
            ]
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            if body is not None:
                fields = _resolve(body, types).get("properties", {})
                rows += [_row(name, field, field.get("description", "")) for name, field in fields.items()]
            if rows:
                parts.append(f"<table><tr><th>name<th>type<th>default<th>{''.join(rows)}</table>")
            for status, answer in operation.get("responses", {}).items():
                content = answer.get("content", {}).get("application/json", {}).get("schema")
                if status == "200" and content is not None:
                    parts.append(f"<pre>{escape(json.dumps(_sketch(content, types), indent=1))}</pre>")
    return "\n".join(parts)


def _row(name: str, field: Mapping[str, Any], description: str) -> str:
    default = json.dumps(field["default"]) if "default" in field else ""
    cells = (_type_of(field), default, description)
    return f"<tr><td><code>{escape(name)}</code>{''.join(f'<td>{escape(cell)}' for cell in cells)}"


def _type_of(field: Mapping[str, Any]) -> str:
    """Return the type of a field in a few words."""
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_type_of(one) for one in field["anyOf"]))
    if "enum" in field:
        return " or ".join(map(str, field["enum"]))
    if field.get("type") == "array":
        return f"list of {_type_of(field['items'])}"
    return str(field.get("type", "object"))


def _resolve(field: Mapping[str, Any], types: Mapping[str, Any]) -> Mapping[str, Any]:
    return types[field["$ref"].rpartition("/")[2]] if "$ref" in field else field


def _sketch(field: Mapping[str, Any], types: Mapping[str, Any]) -> Any:
    """Return an answer of this form, with types in place of values."""
    field = _resolve(field, types)
    if field.get("type") == "array":
        return [_sketch(field["items"], types)]
    if "properties" in field:
        return {name: _sketch(one, types) for name, one in field["properties"].items()}
    arrays = [one for one in field.get("anyOf", ()) if one.get("type") == "array"]
    return _sketch(arrays[0], types) if arrays else _type_of(field)
