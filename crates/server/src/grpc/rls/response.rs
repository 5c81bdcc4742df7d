//! `envoy.service.ratelimit.v3.RateLimitResponse`: what is said, checked before it leaves.
//!
//! Envoy checks nothing that it is told: a line break in a header's value or in a limit's name
//! would split the client's answer, and any code but 1 and 2 lets the request pass.

use bytes::BytesMut;
use tidegate_core::LimitReport;

use super::units::unit_of;
use crate::decision_id::DecisionId;
use crate::grpc::transport::{Message, MessageBuilder};
use crate::grpc::wire::{put_bytes, put_message, put_number};
use crate::headers::{self, HeaderProfile, seconds_until_more};
use crate::pipeline::Answer;
use crate::problem;

const OK: u64 = 1;
const OVER_LIMIT: u64 = 2;
const LONGEST_NAME: usize = 256;

/// Encodes the answer to a request of so many descriptors.
#[inline]
pub fn encode(answer: &Answer<'_, '_>, descriptors: usize, profile: HeaderProfile) -> Message {
    let decision = &answer.decision;
    let mut out = MessageBuilder::with_capacity(if decision.allowed { 220 } else { 900 });
    put_number(&mut out, 1, if decision.allowed { OK } else { OVER_LIMIT });
    put_statuses(&mut out, answer, descriptors);
    headers::each(profile, answer, |name, value| put_header(&mut out, name, value));
    if !decision.allowed {
        let id = answer.id();
        put_header(&mut out, "content-type", problem::MEDIA_TYPE.as_bytes());
        put_message(&mut out, 5, |body| problem::put_denial(body, answer, &id));
        put_message(&mut out, 6, |metadata| put_metadata(metadata, answer, &id));
    } else if decision.is_degraded {
        put_message(&mut out, 6, |metadata| put_metadata(metadata, answer, &answer.id()));
    }
    out.finish()
}

/// Field 2, one for each descriptor, in their order.
#[inline]
fn put_statuses(out: &mut BytesMut, answer: &Answer<'_, '_>, descriptors: usize) {
    let mut met = &answer.plan.met[..];
    for descriptor in 0..descriptors {
        let count = met.iter().take_while(|(at, _)| usize::from(*at) == descriptor).count();
        let (mine, rest) = met.split_at(count);
        met = rest;
        put_message(out, 2, |status| {
            let places = mine.iter().map(|(_, op)| usize::from(*op));
            match answer.decision.binding_among(places) {
                Some(at) => put_status(status, &answer.decision.limits[at]),
                None => put_number(status, 1, OK),
            }
        });
    }
}

/// The binding limit of a descriptor denies if any of its limits does, so its code is theirs.
#[inline]
fn put_status(status: &mut BytesMut, report: &LimitReport<'_>) {
    put_number(status, 1, if report.denies() { OVER_LIMIT } else { OK });
    if report.is_unasked {
        return;
    }
    put_message(status, 2, |limit| put_limit(limit, report));
    put_number(status, 3, clamp(report.remaining));
    // Whole seconds, because Envoy cuts fractions; at least 1 after a denial.
    put_message(status, 4, |duration| put_number(duration, 1, seconds_until_more(report)));
}

#[inline]
fn put_limit(limit: &mut BytesMut, report: &LimitReport<'_>) {
    let (unit, multiplier) = unit_of(report.named_period_us());
    put_number(limit, 1, clamp(report.numbers.n));
    put_number(limit, 2, unit);
    put_name(limit, &report.rule.id);
    if multiplier > 1 {
        put_message(limit, 4, |wrapper| put_number(wrapper, 1, multiplier));
    }
}

/// A limit's name as Envoy can put it between quotes in a header.
#[inline]
fn put_name(limit: &mut BytesMut, id: &str) {
    let is_plain = |byte: &u8| !matches!(byte, 0..0x20 | b'"' | b'\\' | 0x7f..);
    if id.len() <= LONGEST_NAME && id.as_bytes().iter().all(is_plain) {
        return put_bytes(limit, 3, id.as_bytes());
    }
    let mut name: String =
        id.chars().filter(|it| !it.is_control() && !matches!(it, '"' | '\\')).collect();
    while name.len() > LONGEST_NAME {
        name.pop();
    }
    put_bytes(limit, 3, name.as_bytes());
}

/// Field 3, a `HeaderValue`. Short ones, which is nearly all, are put together on the stack and
/// appended at once: five of them stand in nearly every answer.
#[inline]
fn put_header(out: &mut BytesMut, name: &str, value: &[u8]) {
    let (name_end, length) = (4 + name.len(), 4 + name.len() + value.len());
    if length < 0x80 {
        let mut field = [0; 0x82];
        field[..4].copy_from_slice(&[3 << 3 | 2, length as u8, 1 << 3 | 2, name.len() as u8]);
        field[4..name_end].copy_from_slice(name.as_bytes());
        field[name_end] = 2 << 3 | 2;
        field[name_end + 1] = value.len() as u8;
        field[name_end + 2..length + 2].copy_from_slice(value);
        return out.extend_from_slice(&field[..length + 2]);
    }
    put_message(out, 3, |header| {
        put_bytes(header, 1, name.as_bytes());
        put_bytes(header, 2, value);
    });
}

/// `google.protobuf.Struct`, on denials and degraded answers only: it costs Envoy a copy.
fn put_metadata(out: &mut BytesMut, answer: &Answer<'_, '_>, id: &DecisionId) {
    let decision = &answer.decision;
    let text = |out: &mut BytesMut, key: &str, value: &str| {
        put_struct_field(out, key, |it| put_bytes(it, 3, value.as_bytes()));
    };
    text(out, "decision_id", id.as_str());
    text(out, "reason", decision.reason.as_str());
    text(out, "revision", answer.revision);
    put_struct_field(out, "degraded", |value| {
        // Written even when false: an absent member would be no value at all.
        value.extend_from_slice(&[4 << 3, u8::from(decision.is_degraded)]);
    });
    if let Some(at) = decision.binding {
        text(out, "limit", &decision.limits[at].rule.id);
    }
}

fn put_struct_field(out: &mut BytesMut, key: &str, value: impl FnOnce(&mut BytesMut)) {
    put_message(out, 1, |entry| {
        put_bytes(entry, 1, key.as_bytes());
        put_message(entry, 2, value);
    });
}

fn clamp(number: u64) -> u64 {
    number.min(u64::from(u32::MAX))
}
