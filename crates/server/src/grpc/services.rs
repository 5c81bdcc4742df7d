//! The methods that the gRPC port serves, by path.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use http::HeaderMap;
use smallvec::SmallVec;

use super::health;
use super::reflection;
use super::rls::{self, RateLimitDoor};
use super::transport::{Call, Calls, Code, Group, Message, Reply, Service, Status};
use crate::metrics::Timed;
use crate::pipeline::WorkerNode;
use crate::together::TOGETHER;
use crate::traces::{Asked, Ended};

/// The services on one worker's thread.
#[derive(Debug)]
pub struct Services {
    node: Rc<WorkerNode>,
    door: Arc<RateLimitDoor>,
}

/// What can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit`.
    ShouldRateLimit,
    /// `grpc.health.v1.Health/Check`.
    HealthCheck,
    /// `grpc.health.v1.Health/Watch`.
    HealthWatch,
    /// `ServerReflectionInfo` of `grpc.reflection.v1` and `v1alpha`.
    Reflection,
}

impl Services {
    /// Services that ask this node.
    pub fn new(node: Rc<WorkerNode>, door: Arc<RateLimitDoor>) -> Self {
        Self { node, door }
    }
}

impl Service for Services {
    type Method = Method;
    type Later = Pin<Box<dyn Future<Output = Result<Message, Status>>>>;
    type Several = Pin<Box<dyn Future<Output = ()>>>;

    #[inline]
    fn method(&self, path: &str) -> Option<Method> {
        match path {
            "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit" => {
                Some(Method::ShouldRateLimit)
            }
            "/grpc.health.v1.Health/Check" => Some(Method::HealthCheck),
            "/grpc.health.v1.Health/Watch" => Some(Method::HealthWatch),
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
            | "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo" => {
                Some(Method::Reflection)
            }
            _ => None,
        }
    }

    #[inline]
    fn call(&self, method: Method, call: Call) -> Reply<Self::Later> {
        let node = self.node.node();
        match method {
            Method::ShouldRateLimit if node.is_immediate() => {
                let watch = node.metrics().watch(Timed::Grpc);
                let Call { message, metadata, .. } = call;
                let mut span = node.span(&metadata, || Asked::ShouldRateLimit);
                let answer = rls::answer_now(node, &self.door, &message, &metadata, &mut span);
                span.end(ended(&answer));
                node.metrics().took(Timed::Grpc, watch);
                Reply::Ready(answer)
            }
            Method::ShouldRateLimit => {
                let (node, door) = (Rc::clone(&self.node), Arc::clone(&self.door));
                Reply::Later(Box::pin(async move {
                    let watch = node.node().metrics().watch(Timed::Grpc);
                    let Call { message, metadata, .. } = call;
                    let mut span = node.node().span(&metadata, || Asked::ShouldRateLimit);
                    let answer =
                        rls::answer_later(&node, &door, message, metadata, &mut span).await;
                    span.end(ended(&answer));
                    node.node().metrics().took(Timed::Grpc, watch);
                    answer
                }))
            }
            Method::HealthCheck => Reply::Ready(health::check(node, &call.message)),
            Method::HealthWatch => match health::watch(node, &call.message) {
                Ok(messages) => Reply::Stream(messages),
                Err(status) => Reply::Ready(Err(status)),
            },
            // A dialogue: see below.
            Method::Reflection => Reply::Ready(Err(Status::internal("a stream of questions"))),
        }
    }

    #[inline]
    fn call_together(
        &self,
        calls: &[(Method, Call)],
        mut answer: impl FnMut(Result<Message, Status>),
    ) {
        let node = self.node.node();
        if !node.is_immediate() {
            return;
        }
        // One that is traced is called by itself, so that its span is its own.
        let first = calls.iter().take_while(|(method, call)| {
            *method == Method::ShouldRateLimit && !node.is_traced(&call.metadata)
        });
        let first = calls[..first.count()].iter();
        if first.len() == 0 {
            return;
        }
        let mut watches = first
            .clone()
            .map(|_| node.metrics().watch(Timed::Grpc))
            .collect::<SmallVec<[_; TOGETHER]>>()
            .into_iter();
        rls::answer_together(node, &self.door, first.map(|(_, call)| call), |outcome| {
            node.metrics().took(Timed::Grpc, watches.next().flatten());
            answer(outcome);
        });
    }

    #[inline]
    fn call_several(
        &self,
        calls: Calls<Method>,
        group: &Rc<Group>,
    ) -> Result<Self::Several, Calls<Method>> {
        let node = self.node.node();
        let is_fit = |(method, call): &(Method, Call)| {
            *method == Method::ShouldRateLimit && !node.is_traced(&call.metadata)
        };
        if node.is_immediate() || !calls.iter().all(is_fit) {
            return Err(calls);
        }
        let (node, door, group) = (Rc::clone(&self.node), Arc::clone(&self.door), Rc::clone(group));
        Ok(Box::pin(async move {
            let metrics = node.node().metrics();
            let mut watches: SmallVec<[_; TOGETHER]> =
                calls.iter().map(|_| metrics.watch(Timed::Grpc)).collect();
            rls::answer_several(
                &node,
                &door,
                &calls,
                |at| group.is_gone(at),
                |at, outcome| {
                    metrics.took(Timed::Grpc, watches[at].take());
                    group.answer(at, outcome);
                },
            )
            .await;
        }))
    }

    #[inline]
    fn is_dialogue(&self, method: Method) -> bool {
        method == Method::Reflection
    }

    fn answer_each(
        &self,
        _method: Method,
        question: &[u8],
        metadata: &HeaderMap,
    ) -> Result<Message, Status> {
        self.door
            .enter(metadata)
            .map_err(|denied| Status::new(Code::Unauthenticated, denied.door_advice()))?;
        reflection::answer(question)
    }
}

fn ended(answer: &Result<Message, Status>) -> Ended {
    Ended::Grpc(answer.as_ref().err().map_or(Code::Ok, |status| status.code))
}
