//! What a body asks, checked to the last member: each message names the member and the fix.

use std::borrow::Cow;
use std::fmt::Display;

use smallvec::{SmallVec, smallvec};
use tidegate_core::units::MAX;
use tidegate_core::{Descriptor, Verb};

use super::document::Json;
use super::suggest::nearest;
use crate::pipeline::{Ask, MOST_DESCRIPTORS};

/// Checks that one body may bring.
const MOST_CHECKS: usize = 1000;
/// The kind of a cost that is a bare number.
const REQUESTS: &[u8] = b"requests";

type Entries<'a> = SmallVec<[(&'a [u8], &'a [u8]); 4]>;
type Costs<'a> = SmallVec<[(&'a [u8], u64); 1]>;
type Members<'a> = [(Cow<'a, str>, Json<'a>)];
/// Where a value stands in the body; worded only where something is wrong with it.
type Place<'p> = &'p dyn Display;

/// Which members a body may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `domain`, `descriptors`, `cost`, `refund`; or `checks`.
    Check,
    /// `domain`, `descriptors`, `cost`; or `checks`.
    Peek,
    /// `domain`, `descriptors`.
    Reset,
}

/// One request to be decided.
#[derive(Debug, PartialEq, Eq)]
pub struct Question<'a> {
    /// The domain's name.
    pub domain: &'a str,
    /// Charge, look or give back.
    pub verb: Verb,
    entries: SmallVec<[Entries<'a>; 1]>,
    costs: Costs<'a>,
}

/// What a body asks.
#[derive(Debug, PartialEq, Eq)]
pub enum Questions<'a> {
    /// One request.
    One(Question<'a>),
    /// `checks`: many, decided one after another.
    Many(Vec<Question<'a>>),
}

impl<'a> Question<'a> {
    /// What the pipeline is asked.
    pub const fn ask<'s>(&self, descriptors: &'s [Descriptor<'s>]) -> Ask<'s>
    where
        'a: 's,
    {
        Ask { domain: self.domain.as_bytes(), descriptors }
    }

    /// The request as the pipeline takes it.
    pub fn descriptors(&self) -> SmallVec<[Descriptor<'_>; 2]> {
        let describe =
            |entries| Descriptor { entries, costs: &self.costs, verb: self.verb, rate: None };
        self.entries.iter().map(|entries| describe(&entries[..])).collect()
    }
}

impl Questions<'_> {
    /// True if anything is to be given back.
    pub fn has_refund(&self) -> bool {
        match self {
            Self::One(question) => question.verb == Verb::Refund,
            Self::Many(questions) => questions.iter().any(|one| one.verb == Verb::Refund),
        }
    }
}

/// Reads what a document asks.
///
/// # Errors
/// Which member is wrong, and what to send instead.
pub fn questions<'a>(document: &'a Json<'a>, form: Form) -> Result<Questions<'a>, String> {
    let members = object(&"the body", document)?;
    let Some(checks) = member(members, "checks").filter(|_| form != Form::Reset) else {
        return question(&"", members, form, known(form, true)).map(Questions::One);
    };
    only(members, &"", &["checks"])?;
    let Json::List(checks) = checks else {
        return Err(format!("checks: must be a list of objects; got {checks}"));
    };
    if checks.is_empty() || checks.len() > MOST_CHECKS {
        let count = checks.len();
        return Err(format!("checks: must be 1 to {MOST_CHECKS} objects; got {count}"));
    }
    let read = |(at, check): (usize, &'a Json<'a>)| {
        let members = object(&format_args!("checks[{at}]"), check)?;
        question(&format_args!("checks[{at}]."), members, form, known(form, false))
    };
    checks.iter().enumerate().map(read).collect::<Result<_, _>>().map(Questions::Many)
}

/// The members of one question; one that is the whole body may bring many instead.
const fn known(form: Form, is_body: bool) -> &'static [&'static str] {
    match form {
        Form::Check if is_body => &["domain", "descriptors", "cost", "refund", "checks"],
        Form::Check => &["domain", "descriptors", "cost", "refund"],
        Form::Peek if is_body => &["domain", "descriptors", "cost", "checks"],
        Form::Peek => &["domain", "descriptors", "cost"],
        Form::Reset => &["domain", "descriptors"],
    }
}

fn question<'a>(
    place: Place<'_>,
    members: &'a Members<'a>,
    form: Form,
    known: &[&str],
) -> Result<Question<'a>, String> {
    only(members, place, known)?;
    let domain = match member(members, "domain") {
        Some(Json::Text(name)) if !name.is_empty() => name,
        Some(other) => {
            return Err(format!("{place}domain: must be a domain's name; got {other}"));
        }
        None => return Err(format!("{place}domain: is missing; name one of the policy's domains")),
    };
    let verb = match (form, member(members, "refund")) {
        (Form::Check, None | Some(Json::Bool(false))) => Verb::Hit,
        (Form::Check, Some(Json::Bool(true))) => Verb::Refund,
        (Form::Check, Some(other)) => {
            return Err(format!("{place}refund: must be true or false; got {other}"));
        }
        (Form::Peek | Form::Reset, _) => Verb::Peek,
    };
    Ok(Question {
        domain,
        verb,
        entries: descriptors(place, member(members, "descriptors"))?,
        costs: costs(&format_args!("{place}cost"), member(members, "cost"))?,
    })
}

fn descriptors<'a>(
    place: Place<'_>,
    list: Option<&'a Json<'a>>,
) -> Result<SmallVec<[Entries<'a>; 1]>, String> {
    let example = r#"send a list of objects, such as [{"tenant": "acme"}]"#;
    let list = match list {
        Some(Json::List(list)) if list.is_empty() => {
            return Err(format!("{place}descriptors: is empty; {example}"));
        }
        Some(Json::List(list)) if list.len() > MOST_DESCRIPTORS => {
            let count = list.len();
            return Err(format!("{place}descriptors: {count}; at most {MOST_DESCRIPTORS}"));
        }
        Some(Json::List(list)) => list,
        Some(other) => return Err(format!("{place}descriptors: got {other}; {example}")),
        None => return Err(format!("{place}descriptors: is missing; {example}")),
    };
    let read = |(at, descriptor): (usize, &'a Json<'a>)| {
        let members = object(&format_args!("{place}descriptors[{at}]"), descriptor)?;
        let read = |(key, value): &'a (Cow<'a, str>, Json<'a>)| {
            entry(&format_args!("{place}descriptors[{at}].{key}"), key, value)
        };
        members.iter().map(read).collect()
    };
    list.iter().enumerate().map(read).collect()
}

fn entry<'a>(
    place: Place<'_>,
    key: &'a str,
    value: &'a Json<'a>,
) -> Result<(&'a [u8], &'a [u8]), String> {
    match value {
        Json::Text(text) => Ok((key.as_bytes(), text.as_bytes())),
        Json::Whole(number) => {
            Err(format!("{place}: must be a text as written; send \"{number}\""))
        }
        other => Err(format!("{place}: must be a text as written; got {other}")),
    }
}

fn costs<'a>(place: Place<'_>, cost: Option<&'a Json<'a>>) -> Result<Costs<'a>, String> {
    match cost {
        None => Ok(smallvec![(REQUESTS, 1)]),
        Some(Json::Object(kinds)) if kinds.is_empty() => {
            Err(format!(r#"{place}: is empty; send a number, or {{"requests": 1, "tokens": 900}}"#))
        }
        Some(Json::Object(kinds)) => {
            let kind = |(kind, cost): &'a (Cow<'a, str>, Json<'a>)| {
                Ok((kind.as_bytes(), units(&format_args!("{place}.{kind}"), cost)?))
            };
            kinds.iter().map(kind).collect()
        }
        Some(number) => Ok(smallvec![(REQUESTS, units(place, number)?)]),
    }
}

/// A cost of one kind; above what any limit holds it only needs to be denied.
fn units(place: Place<'_>, cost: &Json<'_>) -> Result<u64, String> {
    let wrong = match cost {
        Json::Whole(units) => return Ok((*units).min(MAX + 1)),
        Json::Negative(_) => "must not be negative; to give units back send \"refund\": true",
        Json::Fraction(_) => "must be a whole number below 2^64",
        Json::Text(_) => "must be a number, without quotes",
        _ => "must be a whole number, 0 to look only",
    };
    Err(format!("{place}: {wrong}; got {cost}"))
}

fn object<'a>(place: Place<'_>, json: &'a Json<'a>) -> Result<&'a Members<'a>, String> {
    match json {
        Json::Object(members) => Ok(members),
        other => Err(format!("{place}: must be an object; got {other}")),
    }
}

fn member<'a>(members: &'a Members<'a>, name: &str) -> Option<&'a Json<'a>> {
    members.iter().find(|(member, _)| member == name).map(|(_, value)| value)
}

fn only(members: &Members<'_>, place: Place<'_>, known: &[&str]) -> Result<(), String> {
    match members.iter().find(|(member, _)| !known.contains(&&**member)) {
        None => Ok(()),
        Some((member, _)) => {
            let advice = match nearest(member, known) {
                Some(near) => format!("did you mean {near:?}?"),
                None => format!("there are {}", known.join(", ")),
            };
            let member: String = member.chars().take(64).collect();
            Err(format!("{place}{member}: no such field here; {advice}"))
        }
    }
}

#[cfg(test)]
mod tests;
