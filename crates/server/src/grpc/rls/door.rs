//! From a call to an ask, and from the answer to a message.

use bytes::Bytes;
use http::HeaderMap;
use smallvec::SmallVec;
use tidegate_core::units::MAX;
use tidegate_core::{Descriptor, RequestRate, Verb};

use super::request::{RateLimitDescriptor, RateLimitOverride, RateLimitRequest};
use super::response::encode;
use super::units::{LARGEST_UNIT, LONGEST_PERIOD_S, seconds_of};
use crate::access::{AdminToken, Denied, DoorToken};
use crate::grpc::transport::{Call, Code, Message, Status};
use crate::headers::HeaderProfile;
use crate::node::Node;
use crate::pipeline::{Answer, Ask, MOST_DESCRIPTORS, MOST_ENTRIES, Refused, WorkerNode};
use crate::together::TOGETHER;
use crate::traces::Span;

/// The entry that names the kind of its descriptor's hits.
const COUNTS: &[u8] = b"counts";
const REQUESTS: &[u8] = b"requests";

/// How this door answers.
#[derive(Clone, Debug, Default)]
pub struct RateLimitDoor {
    /// Which headers a client is sent.
    pub profile: HeaderProfile,
    /// Who may give back.
    pub admin: AdminToken,
    /// Who may ask.
    pub token: DoorToken,
}

impl RateLimitDoor {
    /// Passes those who may ask.
    ///
    /// # Errors
    /// Why not.
    #[inline]
    pub fn enter(&self, headers: &HeaderMap) -> Result<(), Denied> {
        self.token.check(headers, &self.admin)
    }
}

/// Answers at once, on a store that can.
#[inline]
pub fn answer_now(
    node: &Node,
    door: &RateLimitDoor,
    message: &[u8],
    metadata: &HeaderMap,
    span: &mut Span,
) -> Result<Message, Status> {
    let mut request = RateLimitRequest::default();
    read(&mut request, door, message, metadata)?;
    let (mut parts, mut descriptors) = (Parts::default(), Descriptors::new());
    parts.add(&request);
    parts.describe([&request], &mut descriptors);
    let ask = Ask { domain: request.domain, descriptors: &descriptors };
    node.decide_now(&ask, |answer| {
        span.note(ask.domain, answer);
        encode(answer, descriptors.len(), door.profile)
    })
    .map_err(|refused| status(&refused))
}

/// Answers calls that arrived together and are not traced, at most [`TOGETHER`], each as
/// [`answer_now`] would.
pub fn answer_together<'c>(
    node: &Node,
    door: &RateLimitDoor,
    calls: impl Iterator<Item = &'c Call> + Clone,
    mut answer: impl FnMut(Result<Message, Status>),
) {
    let mut requests: [RateLimitRequest<'_>; TOGETHER] = Default::default();
    let mut count = 0;
    for (call, request) in calls.clone().zip(&mut requests) {
        if read(request, door, &call.message, &call.metadata).is_err() {
            // One after another, so that each hears of its own fault.
            return calls.for_each(|call| {
                let span = &mut Span::default();
                answer(answer_now(node, door, &call.message, &call.metadata, span));
            });
        }
        count += 1;
    }
    let requests = &requests[..count];
    let (mut parts, mut descriptors) = (Parts::default(), Descriptors::new());
    for request in requests {
        parts.add(request);
    }
    parts.describe(requests, &mut descriptors);
    let asks = asks(requests.iter(), &descriptors);
    node.decide_together(&asks, |ask, decided| {
        let encoded = decided.map(|it| encode(it, ask.descriptors.len(), door.profile));
        answer(encoded.map_err(|refused| status(&refused)));
    });
}

/// Answers calls that arrived together and are not traced, at most [`TOGETHER`], each as
/// [`answer_later`] would; as [`WorkerNode::decide_several`], it says at its first poll what needs
/// no waiting.
pub async fn answer_several<M>(
    node: &WorkerNode,
    door: &RateLimitDoor,
    calls: &[(M, Call)],
    is_gone: impl Fn(usize) -> bool,
    mut answer: impl FnMut(usize, Result<Message, Status>),
) {
    let mut requests: [RateLimitRequest<'_>; TOGETHER] = Default::default();
    let mut places: Few<usize> = Few::new();
    for (at, ((_, call), request)) in calls.iter().zip(&mut requests).enumerate() {
        match read(request, door, &call.message, &call.metadata) {
            Ok(()) => places.push(at),
            Err(status) => answer(at, Err(status)),
        }
    }
    let requests = places.iter().map(|at| &requests[*at]);
    let (mut parts, mut descriptors) = (Parts::default(), Descriptors::new());
    for request in requests.clone() {
        parts.add(request);
    }
    parts.describe(requests.clone(), &mut descriptors);
    let asks = asks(requests, &descriptors);
    let say = |place: usize, decided: Result<&Answer<'_, '_>, Refused>| {
        let count = asks[place].descriptors.len();
        let encoded = decided.map(|it| encode(it, count, door.profile));
        answer(places[place], encoded.map_err(|refused| status(&refused)));
    };
    node.decide_several(&asks, |place| is_gone(places[place]), say).await;
}

/// One for each call.
type Few<T> = SmallVec<[T; TOGETHER]>;

/// Answers once the store has.
pub async fn answer_later(
    node: &WorkerNode,
    door: &RateLimitDoor,
    message: Bytes,
    metadata: HeaderMap,
    span: &mut Span,
) -> Result<Message, Status> {
    let mut request = RateLimitRequest::default();
    read(&mut request, door, &message, &metadata)?;
    let (mut parts, mut descriptors) = (Parts::default(), Descriptors::new());
    parts.add(&request);
    parts.describe([&request], &mut descriptors);
    let ask = Ask { domain: request.domain, descriptors: &descriptors };
    node.decide(&ask, |answer| {
        span.note(ask.domain, answer);
        encode(answer, descriptors.len(), door.profile)
    })
    .await
    .map_err(|refused| status(&refused))
}

/// Reads a message into an empty request, and refuses what cannot be asked.
#[inline]
pub(super) fn read<'a>(
    request: &mut RateLimitRequest<'a>,
    door: &RateLimitDoor,
    message: &'a [u8],
    metadata: &HeaderMap,
) -> Result<(), Status> {
    door.enter(metadata)
        .map_err(|denied| Status::new(Code::Unauthenticated, denied.door_advice()))?;
    request.fill(message).map_err(|_| Status::internal("the message is no RateLimitRequest"))?;
    if request.domain.is_empty() {
        return Err(Status::invalid_argument("domain is empty; name one of the policy's domains"));
    }
    if request.descriptors.is_empty() {
        return Err(Status::invalid_argument("no descriptors; send at least one"));
    }
    if request.descriptors.len() > MOST_DESCRIPTORS {
        let count = request.descriptors.len();
        let text = format!("{count} descriptors; at most {MOST_DESCRIPTORS} are served");
        return Err(Status::invalid_argument(text));
    }
    if request.count() > MOST_ENTRIES {
        let text = format!("{} entries; at most {MOST_ENTRIES} are served", request.count());
        return Err(Status::invalid_argument(text));
    }
    for descriptor in &request.descriptors {
        check(door, descriptor, metadata)?;
    }
    Ok(())
}

#[inline]
fn check(
    door: &RateLimitDoor,
    descriptor: &RateLimitDescriptor,
    metadata: &HeaderMap,
) -> Result<(), Status> {
    if let Some(limit) = &descriptor.limit {
        rate_of(limit)?;
    }
    if descriptor.is_negative_hits
        && let Err(denied) = door.admin.check(metadata)
    {
        let text = format!("is_negative_hits needs the admin token: {}", denied.advice());
        return Err(Status::new(Code::PermissionDenied, text));
    }
    Ok(())
}

/// The rate of a limit that the caller brings.
fn rate_of(limit: &RateLimitOverride) -> Result<RequestRate, Status> {
    let RateLimitOverride { requests_per_unit, unit, unit_multiplier } = *limit;
    let Some(seconds) = seconds_of(unit, unit_multiplier) else {
        let text = format!("limit.unit {unit} is no unit; send 1 (SECOND) to {LARGEST_UNIT}");
        return Err(Status::invalid_argument(text));
    };
    if seconds > LONGEST_PERIOD_S {
        let text = format!("limit of {seconds} s; a period is at most 366 days");
        return Err(Status::invalid_argument(text));
    }
    Ok(RequestRate { n: u64::from(requests_per_unit), period_us: seconds * 1_000_000 })
}

/// The one kind that a descriptor's hits are of, and how many they are.
type Cost<'a> = [(&'a [u8], u64); 1];

/// What descriptors borrow besides their requests.
#[derive(Default)]
struct Parts<'a> {
    costs: SmallVec<[Cost<'a>; 2 * TOGETHER]>,
    // Entries without `counts`, for descriptors that have it; rare, so kept apart.
    filtered: Vec<Vec<(&'a [u8], &'a [u8])>>,
}

/// Those of all requests that arrived together, one after another.
type Descriptors<'s> = SmallVec<[Descriptor<'s>; 2 * TOGETHER]>;

impl<'a> Parts<'a> {
    #[inline]
    fn add(&mut self, request: &RateLimitRequest<'a>) {
        for descriptor in &request.descriptors {
            let entries = request.entries(descriptor);
            let kind = entries.iter().find(|(key, _)| *key == COUNTS).map(|(_, kind)| *kind);
            // One above the most that any limit holds stands for everything above.
            let hits = request.hits(descriptor).min(MAX + 1);
            self.costs.push([(kind.unwrap_or(REQUESTS), hits)]);
            if kind.is_some() {
                let others = entries.iter().copied().filter(|(key, _)| *key != COUNTS);
                self.filtered.push(others.collect());
            }
        }
    }

    /// Appends the descriptors of the requests that were added.
    #[inline]
    fn describe<'s>(
        &'s self,
        requests: impl IntoIterator<Item = &'s RateLimitRequest<'a>>,
        descriptors: &mut Descriptors<'s>,
    ) {
        let (mut costs, mut filtered) = (self.costs.iter(), self.filtered.iter());
        for request in requests {
            for (descriptor, costs) in request.descriptors.iter().zip(&mut costs) {
                let entries = request.entries(descriptor);
                let has_counts = entries.iter().any(|(key, _)| *key == COUNTS);
                let entries = match has_counts.then(|| filtered.next()).flatten() {
                    Some(others) => others,
                    None => entries,
                };
                let verb = if descriptor.is_negative_hits { Verb::Refund } else { Verb::Hit };
                let rate = descriptor.limit.as_ref().and_then(|limit| rate_of(limit).ok());
                descriptors.push(Descriptor { entries, costs, verb, rate });
            }
        }
    }
}

/// An ask for each request, of whose descriptors those of all are made up.
#[inline]
fn asks<'r, 'd, 'a: 'r + 'd>(
    requests: impl Iterator<Item = &'r RateLimitRequest<'a>>,
    descriptors: &'d [Descriptor<'d>],
) -> Few<Ask<'d>> {
    let mut rest = descriptors;
    let ask = |request: &'r RateLimitRequest<'a>| {
        let (mine, others) = rest.split_at(request.descriptors.len());
        rest = others;
        Ask { domain: request.domain, descriptors: mine }
    };
    requests.map(ask).collect()
}

fn status(refused: &Refused) -> Status {
    match refused {
        Refused::NotReady | Refused::Store(_) => Status::unavailable(refused.to_string()),
        Refused::Request(_) => Status::invalid_argument(refused.to_string()),
        Refused::MustWait => Status::internal(refused.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;
    use crate::grpc::wire::{put_bytes, put_message};

    fn message(descriptors: &[&[(&str, &str)]]) -> BytesMut {
        let mut out = BytesMut::new();
        for entries in descriptors {
            put_message(&mut out, 2, |descriptor| {
                for (key, value) in *entries {
                    put_message(descriptor, 1, |entry| {
                        put_bytes(entry, 1, key.as_bytes());
                        put_bytes(entry, 2, value.as_bytes());
                    });
                }
            });
        }
        out
    }

    #[test]
    fn each_request_of_a_group_is_described_as_if_it_were_alone() {
        let messages = [
            message(&[&[("tenant", "a")], &[("counts", "tokens"), ("tenant", "a")]]),
            message(&[&[("tenant", "b"), ("counts", "bytes")]]),
            message(&[&[("tenant", "c")]]),
            message(&[&[("counts", "tokens")], &[("tenant", "d"), ("counts", "tokens")]]),
        ];
        let mut requests: [RateLimitRequest<'_>; 4] = Default::default();
        for (message, request) in messages.iter().zip(&mut requests) {
            assert_eq!(request.fill(message), Ok(()));
        }
        let (mut parts, mut descriptors) = (Parts::default(), Descriptors::new());
        for request in &requests {
            parts.add(request);
        }
        parts.describe(&requests, &mut descriptors);
        let together = asks(requests.iter(), &descriptors);
        assert_eq!(together[1].descriptors[0].costs, [(&b"bytes"[..], 1)]);
        assert_eq!(together[1].descriptors[0].entries, [(&b"tenant"[..], &b"b"[..])]);
        for (request, ask) in requests.iter().zip(&together) {
            let (mut parts, mut alone) = (Parts::default(), Descriptors::new());
            parts.add(request);
            parts.describe([request], &mut alone);
            assert_eq!(format!("{:?}", ask.descriptors), format!("{:?}", &alone[..]));
        }
    }
}
