//! A span, from a request to its answer. It ends when it is dropped, so that a request that
//! panics or is taken back has one, too.

use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use tidegate_counters::Stopwatch;

use super::parent::Parent;
use super::queue::Spans;
use super::state;
use crate::decision_id::{DecisionId, random};
use crate::grpc::transport::Code;
use crate::node::Node;
use crate::pipeline::Answer;

/// Bytes of a domain's name that are kept: whoever asks may name any.
const MOST_DOMAIN: usize = 128;

/// What a request asked for.
#[derive(Clone, Copy, Debug)]
pub enum Asked {
    /// `ShouldRateLimit` over gRPC.
    ShouldRateLimit,
    /// Something over HTTP.
    Http {
        /// The method's name, or `_OTHER`.
        method: &'static str,
        /// Where it is served, without what the client may add.
        route: &'static str,
    },
}

/// How it was answered.
#[derive(Clone, Copy, Debug)]
pub enum Ended {
    /// Over gRPC.
    Grpc(Code),
    /// Over HTTP.
    Http(StatusCode),
}

/// A request that is being answered; nothing for one that is not traced.
#[derive(Debug, Default)]
pub struct Span(Option<Box<Open>>);

#[derive(Debug)]
struct Open {
    spans: Arc<Spans>,
    watch: Stopwatch,
    record: Record,
}

/// What is told of a request.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) parent: Parent,
    /// What is handed on beside it; mostly nothing.
    pub(super) state: Box<str>,
    pub(super) id: u64,
    pub(super) asked: Asked,
    pub(super) store: &'static str,
    pub(super) start_us: u64,
    pub(super) took_ns: u64,
    /// None where nobody waited for the answer, or it never came.
    pub(super) ended: Option<Ended>,
    pub(super) decisions: u64,
    pub(super) denied: u64,
    /// The first decision, which is the only one unless a request holds many checks.
    pub(super) first: Option<Told>,
}

/// What is told of a decision; never an entry of the request.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) domain: String,
    pub(super) reason: &'static str,
    pub(super) limit: Option<Arc<str>>,
    pub(super) is_allowed: bool,
    pub(super) is_degraded: bool,
    pub(super) id: DecisionId,
}

impl Span {
    /// Begins one for a request of this parent and with these headers.
    pub(crate) fn begin(
        spans: &Arc<Spans>,
        node: &Node,
        parent: Parent,
        headers: &HeaderMap,
        asked: Asked,
    ) -> Self {
        let record = Record {
            parent,
            state: state::of(headers),
            // 0 would be no id.
            id: random().max(1),
            asked,
            store: node.store().kind(),
            start_us: node.clock().now_us(),
            took_ns: 0,
            ended: None,
            decisions: 0,
            denied: 0,
            first: None,
        };
        let open = Open { spans: Arc::clone(spans), watch: Stopwatch::start(), record };
        Self(Some(Box::new(open)))
    }

    /// Notes a decision that was made for the request.
    #[inline]
    pub fn note(&mut self, domain: &[u8], answer: &Answer<'_, '_>) {
        if let Some(open) = &mut self.0 {
            open.record.note(domain, answer);
        }
    }

    /// Ends it with the answer.
    #[inline]
    pub fn end(mut self, ended: Ended) {
        if let Some(open) = &mut self.0 {
            open.record.ended = Some(ended);
        }
    }
}

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        if let Some(open) = self.0.take() {
            open.finish();
        }
    }
}

impl Open {
    #[cold]
    fn finish(mut self: Box<Self>) {
        self.record.took_ns = self.watch.elapsed_ns();
        self.spans.push(self.record);
    }
}

impl Record {
    #[cold]
    fn note(&mut self, domain: &[u8], answer: &Answer<'_, '_>) {
        let decision = &answer.decision;
        self.decisions += 1;
        self.denied += u64::from(!decision.allowed);
        if self.first.is_some() {
            return;
        }
        let domain = &domain[..domain.len().min(MOST_DOMAIN)];
        self.first = Some(Told {
            domain: String::from_utf8_lossy(domain).into_owned(),
            reason: decision.reason.as_str(),
            limit: decision.binding.map(|at| Arc::clone(&decision.limits[at].rule.id)),
            is_allowed: decision.allowed,
            is_degraded: decision.is_degraded,
            id: answer.id(),
        });
    }

    #[cfg(test)]
    pub(super) fn for_test(id: u64) -> Self {
        Self {
            parent: Parent { trace_id: 0xabc, span_id: 0xdef, flags: 3 },
            state: Box::default(),
            id,
            asked: Asked::ShouldRateLimit,
            store: "memory",
            start_us: 1_764_554_400_000_000,
            took_ns: 1_234,
            ended: Some(Ended::Grpc(Code::Ok)),
            decisions: 0,
            denied: 0,
            first: None,
        }
    }
}
