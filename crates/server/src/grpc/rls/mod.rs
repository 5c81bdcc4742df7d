//! `envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit`, API 1.40.
//!
//! - Hits: a descriptor's own beat the request's; the request's 0 is unset and means 1, a
//!   descriptor's 0 is a look. Hits above 2^53 - 1 are more than any limit holds, so denied.
//! - An entry `counts` names the kind that the descriptor's hits are of (`requests` without it);
//!   it is never part of a key.
//! - `is_negative_hits` gives back, with the admin token in the call's `authorization`.
//! - `limit`, a rate brought by the caller, stands in for that of limits which the policy lets it
//!   (`request_override`); others do not heed it. A unit that is none is refused in any case.

mod door;
#[cfg(test)]
mod fuzz;
mod request;
mod response;
mod units;

pub use door::{RateLimitDoor, answer_later, answer_now, answer_several, answer_together};
pub use request::{RateLimitDescriptor, RateLimitOverride, RateLimitRequest};
pub use response::encode;
