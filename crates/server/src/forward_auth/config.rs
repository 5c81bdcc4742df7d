//! The doors as the operator configures them: read once, at the start, and checked to the last
//! field. Defaults are filled in by who writes the document.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::{HeaderName, StatusCode};
use serde::Deserialize;
use tidegate_core::units::MAX;

use super::address::{Prefixes, Trusted};
use super::door::{Door, Source, Template};
use super::path::Spelling;
use super::repeats::Repeats;

/// All doors, by name, and the answers that they may repeat.
#[derive(Debug, Default)]
pub struct ForwardAuth {
    doors: BTreeMap<Box<str>, Door>,
    /// Answers of the last seconds.
    pub repeats: Repeats,
}

/// A configuration that cannot be used: which field, and what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("forward_auth.{0}")]
pub struct ForwardAuthError(String);

/// One door, every field written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DoorDocument {
    domain: String,
    cost: i64,
    descriptors: Vec<BTreeMap<String, String>>,
    trusted_proxies: Vec<String>,
    address: Option<String>,
    uri: Option<String>,
    method: Option<String>,
    request_id: Option<String>,
    ipv4_prefix: i64,
    ipv6_prefix: i64,
    fold_case: bool,
    keep_trailing_slash: bool,
    deny_status: i64,
}

impl ForwardAuth {
    /// Reads `{"NAME": {…}}`.
    ///
    /// # Errors
    /// The first field that cannot be used.
    pub fn load(document: &[u8]) -> Result<Arc<Self>, ForwardAuthError> {
        let doors: BTreeMap<String, DoorDocument> = serde_json::from_slice(document)
            .map_err(|error| ForwardAuthError(format!("*: {error}")))?;
        let doors = doors.into_iter().map(|(name, document)| {
            let wrong = |problem| ForwardAuthError(format!("{name}.{problem}"));
            let door = door(&name, &document).map_err(wrong)?;
            Ok((name.into(), door))
        });
        Ok(Arc::new(Self { doors: doors.collect::<Result<_, _>>()?, repeats: Repeats::default() }))
    }

    /// The door of that name.
    pub fn door(&self, name: &str) -> Option<&Door> {
        self.doors.get(name)
    }

    /// True if there is no door.
    pub fn is_off(&self) -> bool {
        self.doors.is_empty()
    }
}

fn door(name: &str, document: &DoorDocument) -> Result<Door, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if name.is_empty() || name.len() > 64 || !name.bytes().all(is_plain) {
        return Err("name: must be 1 to 64 letters, digits, - and _, as it stands in a path".into());
    }
    if document.domain.is_empty() {
        return Err("domain: is empty; name one of the policy's domains".into());
    }
    let cost = u64::try_from(document.cost).ok().filter(|cost| (1..=MAX).contains(cost));
    let cost = cost.ok_or_else(|| format!("cost: must be at least 1; got {}", document.cost))?;
    if document.descriptors.is_empty() {
        return Err(r#"descriptors: is empty; write some, such as [{ip = "{address}"}]"#.into());
    }
    let prefixes = Prefixes {
        v4: prefix("ipv4_prefix", document.ipv4_prefix, 32)?,
        v6: prefix("ipv6_prefix", document.ipv6_prefix, 128)?,
    };
    let trusted = Trusted::parse(&document.trusted_proxies).map_err(|text| {
        format!("trusted_proxies: {text:?} is no network; write such as \"10.0.0.0/8\"")
    })?;
    let deny_status = u16::try_from(document.deny_status)
        .ok()
        .and_then(|status| StatusCode::from_u16(status).ok())
        .filter(|status| status.is_client_error() || status.is_server_error())
        .ok_or_else(|| format!("deny_status: {} is no error; 400 to 599", document.deny_status))?;
    Ok(Door {
        name: name.into(),
        domain: document.domain.as_bytes().into(),
        deny_status,
        trusted,
        address: header("address", document.address.as_deref())?,
        uri: header("uri", document.uri.as_deref())?,
        method: header("method", document.method.as_deref())?,
        request_id: header("request_id", document.request_id.as_deref())?,
        spelling: Spelling {
            folds_case: document.fold_case,
            keeps_trailing_slash: document.keep_trailing_slash,
        },
        cost,
        templates: templates(&document.descriptors, prefixes)?,
    })
}

fn prefix(field: &str, bits: i64, most: u8) -> Result<u8, String> {
    let fits = u8::try_from(bits).ok().filter(|bits| (1..=most).contains(bits));
    fits.ok_or_else(|| format!("{field}: must be 1 to {most}; got {bits}"))
}

fn header(field: &str, name: Option<&str>) -> Result<Option<HeaderName>, String> {
    let Some(name) = name else { return Ok(None) };
    let read = HeaderName::from_bytes(name.as_bytes());
    read.map(Some).map_err(|_| format!("{field}: {name:?} is no name of a header"))
}

fn templates(
    descriptors: &[BTreeMap<String, String>],
    prefixes: Prefixes,
) -> Result<Vec<Template>, String> {
    let entry = |at: usize, key: &String, value: &String| -> Result<_, String> {
        let found = source(value, prefixes)
            .map_err(|problem| format!("descriptors[{at}].{key}: {problem}"))?;
        Ok((key.as_bytes().into(), found))
    };
    let template = |(at, one): (usize, &BTreeMap<String, String>)| -> Result<Template, String> {
        if one.is_empty() {
            return Err(format!("descriptors[{at}]: is empty"));
        }
        one.iter().map(|(key, value)| entry(at, key, value)).collect()
    };
    descriptors.iter().enumerate().map(template).collect()
}

/// A text stands for itself, unless it is one of the words in braces.
fn source(value: &str, prefixes: Prefixes) -> Result<Source, String> {
    if !value.contains(['{', '}']) {
        return Ok(Source::Constant(value.as_bytes().into()));
    }
    let word = value.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default();
    let (name, detail) = word.split_once([':', '/']).unwrap_or((word, ""));
    match (name, detail) {
        ("address", "") => Ok(Source::Address(prefixes)),
        ("path", "") => Ok(Source::Path),
        ("method", "") => Ok(Source::Method),
        ("address", bits) => {
            let v6 = bits.parse().ok().filter(|bits| (1..=128).contains(bits));
            let v6 = v6.ok_or_else(|| format!("{bits:?} is no prefix of IPv6; 1 to 128"))?;
            Ok(Source::Address(Prefixes { v6, ..prefixes }))
        }
        ("header", name) => HeaderName::from_bytes(name.as_bytes())
            .map(Source::Header)
            .map_err(|_| format!("{name:?} is no name of a header")),
        _ => Err(format!(
            "{value:?} stands for nothing; there are {{address}}, {{address/48}}, {{path}}, \
             {{method}} and {{header:NAME}}, each alone"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn document(changes: &Value) -> Vec<u8> {
        let mut door = json!({
            "domain": "shop", "cost": 1, "descriptors": [{"ip": "{address}"}],
            "trusted_proxies": ["10.0.0.0/8"], "address": "x-forwarded-for",
            "uri": "x-original-uri", "method": null, "request_id": null, "ipv4_prefix": 32,
            "ipv6_prefix": 64, "fold_case": false, "keep_trailing_slash": false,
            "deny_status": 429,
        });
        for (key, value) in changes.as_object().unwrap() {
            door[key] = value.clone();
        }
        json!({"web": door}).to_string().into_bytes()
    }

    #[test]
    fn each_mistake_is_named() {
        assert!(ForwardAuth::load(&document(&json!({}))).unwrap().door("web").is_some());
        let cases = [
            (json!({"domain": ""}), "forward_auth.web.domain: is empty"),
            (json!({"cost": 0}), "forward_auth.web.cost: must be at least 1"),
            (json!({"descriptors": []}), "forward_auth.web.descriptors: is empty"),
            (json!({"descriptors": [{}]}), "descriptors[0]: is empty"),
            (json!({"descriptors": [{"a": "{uri}"}]}), "descriptors[0].a: \"{uri}\" stands for"),
            (json!({"descriptors": [{"a": "x{path}"}]}), "each alone"),
            (json!({"descriptors": [{"a": "{address/129}"}]}), "1 to 128"),
            (json!({"descriptors": [{"a": "{header:a b}"}]}), "no name of a header"),
            (json!({"trusted_proxies": ["10.0.0.0/40"]}), "\"10.0.0.0/40\" is no network"),
            (json!({"address": "x forwarded"}), "address: \"x forwarded\" is no name"),
            (json!({"ipv6_prefix": 0}), "ipv6_prefix: must be 1 to 128; got 0"),
            (json!({"ipv4_prefix": -33}), "ipv4_prefix: must be 1 to 32; got -33"),
            (json!({"deny_status": 302}), "deny_status: 302 is no error"),
            (json!({"colour": 1}), "unknown field `colour`"),
        ];
        for (changes, expected) in cases {
            let error = ForwardAuth::load(&document(&changes)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn name_is_one_that_stands_in_a_path() {
        let error = ForwardAuth::load(br#"{"a/b": {}}"#).unwrap_err().to_string();
        assert!(error.contains("missing field"), "{error}");
        let named = String::from_utf8(document(&json!({}))).unwrap().replace("\"web\"", "\"a/b\"");
        let error = ForwardAuth::load(named.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("name: must be"), "{error}");
    }
}
