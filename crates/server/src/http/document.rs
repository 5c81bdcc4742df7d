//! A JSON document as it was written: members in order, none twice, texts borrowed.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Members that one object may have: they are compared with each other.
const MOST_MEMBERS: usize = 256;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number from 0.
    Whole(u64),
    /// A whole number below 0.
    Negative(i64),
    /// Any other number.
    Fraction(f64),
    /// A text.
    Text(Cow<'a, str>),
    /// A list.
    List(Vec<Json<'a>>),
    /// An object.
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

impl<'a> Json<'a> {
    /// Reads a document; the error says line and column.
    pub fn parse(document: &'a [u8]) -> Result<Self, String> {
        serde_json::from_slice(document).map_err(|error| format!("the body is no JSON: {error}"))
    }
}

/// For messages: what was got.
impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Whole(number) => write!(f, "the number {number}"),
            Self::Negative(number) => write!(f, "the number {number}"),
            Self::Fraction(number) => write!(f, "the number {number}"),
            Self::Text(text) if text.len() > 40 => f.write_str("a text"),
            Self::Text(text) => write!(f, "the text {text:?}"),
            Self::List(_) => f.write_str("a list"),
            Self::Object(_) => f.write_str("an object"),
        }
    }
}

impl<'de> Deserialize<'de> for Json<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

/// A member's name, borrowed where it has no escapes.
struct Name<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.deserialize_str(Reader)? {
            Json::Text(text) => Ok(Self(text)),
            other => Err(D::Error::custom(format!("a name must be a text; got {other}"))),
        }
    }
}

impl<'de> Visitor<'de> for Reader {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json<'de>, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json<'de>, E> {
        Ok(Json::Bool(value))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Json<'de>, E> {
        Ok(Json::Whole(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Json<'de>, E> {
        Ok(Json::Negative(number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Json<'de>, E> {
        Ok(Json::Fraction(number))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json<'de>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Json::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Json<'de>, A::Error> {
        let mut members: Vec<(Cow<'de, str>, Json<'de>)> = Vec::new();
        while let Some(Name(name)) = object.next_key()? {
            // Which of two was meant cannot be told, and readers disagree.
            if members.iter().any(|(other, _)| *other == name) {
                return Err(A::Error::custom(format!("{name:?} stands twice in one object")));
            }
            if members.len() == MOST_MEMBERS {
                let problem = format!("an object has more than {MOST_MEMBERS} members");
                return Err(A::Error::custom(problem));
            }
            members.push((name, object.next_value()?));
        }
        Ok(Json::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_form() {
        let document = br#"{"a":[1,-1,1.5,1e2,"x\n",null,true],"b":{}}"#;
        let Json::Object(members) = Json::parse(document).unwrap() else { panic!("an object") };
        let expected = [
            Json::Whole(1),
            Json::Negative(-1),
            Json::Fraction(1.5),
            Json::Fraction(100.0),
            Json::Text("x\n".into()),
            Json::Null,
            Json::Bool(true),
        ];
        assert_eq!(members[0], ("a".into(), Json::List(expected.into())));
    }

    #[test]
    fn errors_say_where() {
        let error = Json::parse(b"{\"a\": 1,\n \"b\" 2}").unwrap_err();
        assert!(error.contains("line 2 column 6"), "{error}");
        let error = Json::parse(br#"{"a":1,"a":2}"#).unwrap_err();
        assert!(error.contains(r#""a" stands twice"#), "{error}");
        let members: Vec<_> = (0..257).map(|at| format!("\"{at}\":0")).collect();
        let error = Json::parse(format!("{{{}}}", members.join(",")).as_bytes()).unwrap_err();
        assert!(error.contains("more than 256 members"), "{error}");
        assert!(Json::parse(b"{} {}").is_err());
        assert!(Json::parse(b"").is_err());
        assert!(Json::parse(b"\"\xff\"").is_err());
        assert!(Json::parse("[".repeat(100_000).as_bytes()).is_err());
    }
}
