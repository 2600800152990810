//! Describes arguments as JSON Schema, by the types of the parameters as they are written.

use serde_json::{Map, Value, json};

use crate::protocol::arguments::Presence;

/// The schema of arguments by name, from the names, types and presences of the parameters. A type that is not known here may be
/// anything.
pub(super) fn arguments<'a>(params: impl Iterator<Item = (&'a str, &'a str, Presence)> + Clone) -> Value {
    let properties: Map<String, Value> =
        params.clone().map(|(name, ty, _)| (name.to_owned(), of_param(ty))).collect();
    let required = params.filter(|(_, _, presence)| *presence == Presence::Required);
    let required: Vec<&str> = required.map(|(name, ..)| name).collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn of_param(ty: &str) -> Value {
    let ty: String = ty.chars().filter(|c| !c.is_whitespace()).collect();
    of_type(&ty)
}

/// The schema of a type without spaces.
fn of_type(ty: &str) -> Value {
    let ty = ty.trim_start_matches('&').trim_start_matches("'static").trim_start_matches("'_");
    if let Some(inner) = ty.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        let items: Vec<Value> = parts(inner).into_iter().map(of_type).collect();
        return json!({ "type": "array", "prefixItems": items, "minItems": items.len(), "maxItems": items.len() });
    }
    if let Some(inner) = ty.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return json!({ "type": "array", "items": of_type(inner.split(';').next().unwrap_or(inner)) });
    }
    let (path, arguments) = match ty.split_once('<') {
        Some((path, rest)) => (path, parts(rest.strip_suffix('>').unwrap_or(rest))),
        None => (ty, Vec::new()),
    };
    let name = path.rsplit("::").next().unwrap_or(path);
    let integer = |least: i64, most: i64| json!({ "type": "integer", "minimum": least, "maximum": most });
    match (name, arguments.as_slice()) {
        ("bool", []) => json!({ "type": "boolean" }),
        ("i8", []) => integer(i8::MIN.into(), i8::MAX.into()),
        ("i16", []) => integer(i16::MIN.into(), i16::MAX.into()),
        ("i32", []) => integer(i32::MIN.into(), i32::MAX.into()),
        ("u8", []) => integer(0, u8::MAX.into()),
        ("u16", []) => integer(0, u16::MAX.into()),
        ("u32", []) => integer(0, u32::MAX.into()),
        ("i64" | "isize" | "i128", []) => json!({ "type": "integer" }),
        ("u64" | "usize" | "u128", []) => json!({ "type": "integer", "minimum": 0 }),
        ("f32" | "f64", []) => json!({ "type": "number" }),
        ("String" | "str" | "char" | "PathBuf" | "Path" | "Uuid", _) => json!({ "type": "string" }),
        ("Cow", [.., "str"]) => json!({ "type": "string" }),
        ("Option", [inner]) => json!({ "anyOf": [of_type(inner), { "type": "null" }] }),
        ("Box" | "Arc" | "Rc", [inner]) => of_type(inner),
        ("Vec" | "VecDeque" | "HashSet" | "BTreeSet", [inner, ..]) => {
            json!({ "type": "array", "items": of_type(inner) })
        }
        ("HashMap" | "BTreeMap", ["String", value, ..]) => {
            json!({ "type": "object", "additionalProperties": of_type(value) })
        }
        _ => json!({ "description": format!("the Rust type {ty}") }),
    }
}

/// The parts of a list, at the commas that are in no brackets.
fn parts(list: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut begin) = (Vec::new(), 0, 0);
    for (at, character) in list.char_indices() {
        match character {
            '<' | '(' | '[' => depth += 1,
            '>' | ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    if begin < list.len() {
        parts.push(&list[begin..]);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_the_schemas_of_what_is_sent_for_them() {
        let string = json!({ "type": "string" });
        for (ty, expected) in [
            ("i64", json!({ "type": "integer" })),
            ("std::option::Option<String>", json!({ "anyOf": [string, { "type": "null" }] })),
            (
                "Vec<(u8,&str)>",
                json!({ "type": "array", "items": {
                    "type": "array",
                    "prefixItems": [{ "type": "integer", "minimum": 0, "maximum": 255 }, string],
                    "minItems": 2, "maxItems": 2,
                }}),
            ),
            (
                "HashMap<String,Vec<bool>>",
                json!({ "type": "object", "additionalProperties":
                { "type": "array", "items": { "type": "boolean" } } }),
            ),
            ("[f64;3]", json!({ "type": "array", "items": { "type": "number" } })),
            ("Order", json!({ "description": "the Rust type Order" })),
        ] {
            assert_eq!(of_type(ty), expected, "{ty}");
        }
    }
}
