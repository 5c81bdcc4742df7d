//! A denial as it is kept: what was asked, and what each limit said. Packed on the path of the
//! request, so nothing is allocated or worded here.

use tidegate_core::{Action, LimitReport, PlannedOp, Reason};

use super::packed::{LONGEST_RECORD, put_number, put_text};
use crate::decision_id::DecisionId;
use crate::pipeline::{Answer, Ask};

/// Bytes of a name or an id that are kept.
pub const NAME: usize = 64;
/// Bytes of a descriptor's key or value that are kept.
pub const ENTRY: usize = 96;
/// Limits take at most so much of a record, so that entries have the rest.
const LIMITS_END: usize = 640;
/// The longest row of a limit, and the longest entry.
const LONGEST_LIMIT: usize = NAME + 2 + 9 * 8 + 4;
const LONGEST_ENTRY: usize = 2 * (ENTRY + 3) + 1;

/// What stands before each row, and after the last.
pub const ROW: u8 = 1;
pub const END: u8 = 0;

/// Every reason, in the order of its code.
pub const REASONS: [Reason; 6] = [
    Reason::Ok,
    Reason::OverLimit,
    Reason::CostExceedsLimit,
    Reason::Blocked,
    Reason::MissingKey,
    Reason::StoreFailure,
];

/// The verbs, in the order of their codes.
pub const VERBS: [&str; 3] = ["charge", "peek", "refund"];

const fn reason_code(reason: Reason) -> u8 {
    match reason {
        Reason::Ok => 0,
        Reason::OverLimit => 1,
        Reason::CostExceedsLimit => 2,
        Reason::Blocked => 3,
        Reason::MissingKey => 4,
        Reason::StoreFailure => 5,
    }
}

/// True if a record is this decision's.
pub fn is_of(record: &[u8], id: &DecisionId) -> bool {
    record.starts_with(id.as_bytes())
}

/// Writes a record. The limits that deny come first: where there is no room for all, the others
/// are left out.
#[inline(never)]
pub fn pack(out: &mut Vec<u8>, ask: &Ask<'_>, answer: &Answer<'_, '_>) {
    let decision = &answer.decision;
    out.extend_from_slice(answer.id().as_bytes());
    put_number(out, answer.now_us);
    out.push(reason_code(decision.reason));
    out.push(u8::from(decision.is_degraded));
    put_optional(out, decision.retry_after_us);
    put_text(out, answer.revision.as_bytes(), NAME);
    put_text(out, ask.domain, NAME);
    put_number(out, decision.limits.len() as u64);
    let rows = || decision.limits.iter().zip(&answer.plan.ops);
    let denying = rows().filter(|(report, _)| report.denies());
    let others = rows().filter(|(report, _)| !report.denies());
    for (report, op) in denying.chain(others) {
        if out.len() + LONGEST_LIMIT > LIMITS_END {
            break;
        }
        put_limit(out, report, op);
    }
    out.push(END);
    put_descriptors(out, ask);
}

#[inline]
fn put_limit(out: &mut Vec<u8>, report: &LimitReport<'_>, op: &PlannedOp<'_>) {
    let verb = match op.action {
        Action::Charge(_) => 0,
        Action::Peek(_) => 1,
        Action::Refund(_) => 2,
    };
    out.push(ROW);
    put_text(out, report.rule.id.as_bytes(), NAME);
    out.push(u8::from(report.allowed) | u8::from(report.rule.is_shadow) << 1);
    out.push(reason_code(report.reason));
    out.push(verb);
    put_number(out, op.action.cost());
    put_number(out, report.numbers.n);
    put_number(out, report.numbers.period_us);
    put_number(out, report.limit());
    put_number(out, report.window_us());
    put_number(out, report.remaining);
    put_number(out, report.reset_us);
    put_optional(out, report.wait_us);
}

/// Each descriptor is a row of rows; what does not fit is only counted.
fn put_descriptors(out: &mut Vec<u8>, ask: &Ask<'_>) {
    put_number(out, ask.descriptors.len() as u64);
    let has_room = |out: &Vec<u8>| out.len() + LONGEST_ENTRY + 8 <= LONGEST_RECORD;
    for descriptor in ask.descriptors {
        if !has_room(out) {
            break;
        }
        out.push(ROW);
        put_number(out, descriptor.entries.len() as u64);
        for (key, value) in descriptor.entries {
            if !has_room(out) {
                break;
            }
            out.push(ROW);
            put_text(out, key, ENTRY);
            put_text(out, value, ENTRY);
        }
        out.push(END);
    }
    out.push(END);
}

/// 0 is none, so numbers are kept plus one.
#[inline]
fn put_optional(out: &mut Vec<u8>, number: Option<u64>) {
    put_number(out, number.map_or(0, |number| number.saturating_add(1)));
}
