//! One named door: what it believes, and what it asks of it.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, StatusCode};
use tidegate_core::{Descriptor, Verb};

use super::address::{Prefixes, Trusted, client_address};
use super::path::{Spelling, normalized};

/// What one entry's value is taken from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Constant(Box<[u8]>),
    Address(Prefixes),
    Path,
    Method,
    Header(HeaderName),
}

/// The entries of one descriptor: each key, and where its value comes from.
pub(super) type Template = Vec<(Box<[u8]>, Source)>;

/// One `[forward_auth.NAME]`.
#[derive(Clone, Debug)]
pub struct Door {
    /// The domain that is asked.
    pub domain: Box<[u8]>,
    /// The status of a denial.
    pub deny_status: StatusCode,
    pub(super) name: Box<str>,
    pub(super) trusted: Trusted,
    pub(super) address: Option<HeaderName>,
    pub(super) uri: Option<HeaderName>,
    pub(super) method: Option<HeaderName>,
    pub(super) request_id: Option<HeaderName>,
    pub(super) spelling: Spelling,
    pub(super) cost: u64,
    pub(super) templates: Vec<Template>,
}

/// Keys and values of one descriptor.
type Entries = Vec<(Box<[u8]>, Vec<u8>)>;

/// Keys and values as the pipeline takes them.
pub type BorrowedEntries<'a> = Vec<(&'a [u8], &'a [u8])>;

/// A sub-request as it arrived.
#[derive(Clone, Copy, Debug)]
pub struct Said<'a> {
    /// Who sent it; none over a socket without addresses.
    pub peer: Option<IpAddr>,
    /// Its own method.
    pub method: &'a str,
    /// What follows the door's name in its path.
    pub suffix: &'a str,
    /// Its headers.
    pub headers: &'a HeaderMap,
}

/// A sub-request that cannot be decided, and what to change at the proxy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{header}: {problem}")]
pub struct Refusal {
    header: HeaderName,
    problem: &'static str,
}

/// What is to be asked of a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Subject {
    entries: Vec<Entries>,
    request_id: Option<Vec<u8>>,
}

impl Door {
    /// Takes from a sub-request what this door believes of it. Of a peer that is not trusted that
    /// is its own address alone.
    ///
    /// # Errors
    /// A header that must be there is missing, or one that may come once came twice.
    pub fn subject(&self, said: &Said<'_>) -> Result<Subject, Refusal> {
        let is_believed = said.peer.is_none_or(|peer| self.trusted.holds(peer));
        let address = self.client(said, is_believed)?;
        let told = |header: &Option<HeaderName>, own: &'_ str| match header {
            _ if !is_believed => Ok(None),
            None => Ok(Some(own.as_bytes().to_vec())),
            Some(header) => match once(said.headers, header)? {
                Some(value) => Ok(Some(value.to_vec())),
                None => Err(Refusal {
                    header: header.clone(),
                    problem: "is missing; this door's settings say that the proxy sends it",
                }),
            },
        };
        let path = told(&self.uri, said.suffix)?.map(|uri| normalized(&uri, self.spelling));
        let method = told(&self.method, said.method)?;
        let value = |source: &Source| -> Result<Option<Vec<u8>>, Refusal> {
            Ok(match source {
                Source::Constant(text) => Some(text.to_vec()),
                Source::Address(prefixes) => {
                    address.map(|address| prefixes.cut(address).to_string().into_bytes())
                }
                Source::Path => path.clone(),
                Source::Method => method.clone(),
                Source::Header(header) if is_believed => {
                    once(said.headers, header)?.map(<[u8]>::to_vec)
                }
                Source::Header(_) => None,
            })
        };
        let mut entries = Vec::with_capacity(self.templates.len());
        for template in &self.templates {
            let mut descriptor = Vec::with_capacity(template.len());
            for (key, source) in template {
                if let Some(value) = value(source)? {
                    descriptor.push((key.clone(), value));
                }
            }
            entries.push(descriptor);
        }
        let request_id = match &self.request_id {
            Some(header) if is_believed => once(said.headers, header)?.map(<[u8]>::to_vec),
            _ => None,
        };
        Ok(Subject { entries, request_id: request_id.filter(|id| !id.is_empty()) })
    }

    fn client(&self, said: &Said<'_>, is_believed: bool) -> Result<Option<IpAddr>, Refusal> {
        let (Some(peer), Some(header)) = (said.peer, &self.address) else { return Ok(said.peer) };
        if !is_believed {
            return Ok(Some(peer));
        }
        client_address(peer, header, said.headers, &self.trusted)
            .map(Some)
            .map_err(|_| doubled(header))
    }

    /// The costs of each request.
    pub const fn costs(&self) -> [(&'static [u8], u64); 1] {
        [(b"requests", self.cost)]
    }

    /// The door's name.
    pub const fn name(&self) -> &str {
        &self.name
    }
}

impl Subject {
    /// The entries of each descriptor, borrowed.
    pub fn entries(&self) -> Vec<BorrowedEntries<'_>> {
        self.entries
            .iter()
            .map(|entries| entries.iter().map(|(key, value)| (&**key, &**value)).collect())
            .collect()
    }

    /// True if the proxy names its requests, so that a repeat can be told.
    pub const fn is_named(&self) -> bool {
        self.request_id.is_some()
    }
}

/// Descriptors of these entries, each of which is charged the same.
pub fn descriptors<'a>(
    entries: &'a [BorrowedEntries<'a>],
    costs: &'a [(&'a [u8], u64)],
) -> Vec<Descriptor<'a>> {
    entries
        .iter()
        .map(|entries| Descriptor { entries, costs, verb: Verb::Hit, rate: None })
        .collect()
}

fn once<'a>(headers: &'a HeaderMap, header: &HeaderName) -> Result<Option<&'a [u8]>, Refusal> {
    let mut values = headers.get_all(header).iter();
    match (values.next(), values.next()) {
        (_, Some(_)) => Err(doubled(header)),
        (value, None) => Ok(value.map(http::HeaderValue::as_bytes)),
    }
}

fn doubled(header: &HeaderName) -> Refusal {
    let problem = "came twice; have the proxy replace what the client sent";
    Refusal { header: header.clone(), problem }
}
