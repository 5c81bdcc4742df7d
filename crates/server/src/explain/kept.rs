//! A kept denial in words: the JSON of `GET /v1/decisions/ID`.

use std::fmt::Write;

use super::packed::{Cut, Reader};
use super::record::{END, ENTRY, NAME, REASONS, ROW, VERBS};
use super::safe::safe;
use super::time::Rfc3339;
use crate::json::{put_bool, put_number, put_text};

const ID: usize = 26;

/// When a kept denial was decided, as text.
pub fn when_kept(record: &[u8]) -> String {
    let mut reader = Reader(record);
    reader.bytes(ID);
    Rfc3339(reader.number()).to_string()
}

/// Writes a record as JSON, with the names that every door uses.
pub fn put_kept(out: &mut Vec<u8>, record: &[u8]) {
    let mut reader = Reader(record);
    put_member(out, b"{\"decision_id\":", &String::from_utf8_lossy(reader.bytes(ID)));
    let now_us = reader.number();
    put_member(out, b",\"time\":", &Rfc3339(now_us).to_string());
    out.extend_from_slice(b",\"allowed\":false");
    put_member(out, b",\"reason\":", reason(&mut reader));
    put_flag(out, b",\"degraded\":", reader.byte() != 0);
    put_wait(out, now_us, optional(&mut reader));
    put_cut(out, b",\"revision\":", &reader.text(NAME));
    put_cut(out, b",\"domain\":", &reader.text(NAME));
    let limits = reader.number();
    out.extend_from_slice(b",\"limits\":[");
    let shown = put_rows(out, &mut reader, |out, reader| put_limit(out, reader, now_us));
    put_left_out(out, b"],\"limits_left_out\":", limits, shown);
    let descriptors = reader.number();
    out.extend_from_slice(b",\"descriptors\":[");
    let shown = put_rows(out, &mut reader, put_descriptor);
    put_left_out(out, b"],\"descriptors_left_out\":", descriptors, shown);
    out.push(b'}');
}

fn put_limit(out: &mut Vec<u8>, reader: &mut Reader<'_>, now_us: u64) {
    put_cut(out, b"{\"id\":", &reader.text(NAME));
    let flags = reader.byte();
    let (is_allowed, is_shadow) = (flags & 1 != 0, flags & 2 != 0);
    put_flag(out, b",\"allowed\":", is_allowed);
    put_flag(out, b",\"shadow\":", is_shadow);
    put_flag(out, b",\"denied\":", !is_allowed && !is_shadow);
    put_member(out, b",\"reason\":", reason(reader));
    let verb = VERBS.get(usize::from(reader.byte())).copied().unwrap_or_default();
    put_member(out, b",\"action\":", verb);
    put_count(out, b",\"cost\":", reader.number());
    put_count(out, b",\"rate\":{\"n\":", reader.number());
    put_count(out, b",\"period_ms\":", reader.number() / 1000);
    let (limit, window_us) = (reader.number(), reader.number());
    let (remaining, reset_us) = (reader.number(), reader.number());
    put_count(out, b"},\"limit\":", limit);
    put_count(out, b",\"used\":", limit.saturating_sub(remaining));
    put_count(out, b",\"remaining\":", remaining);
    put_count(out, b",\"window_ms\":", window_us.div_ceil(1000));
    put_count(out, b",\"reset_ms\":", reset_us.div_ceil(1000));
    let reset_at = Rfc3339(now_us.saturating_add(reset_us)).to_string();
    put_member(out, b",\"reset_at\":", &reset_at);
    put_wait(out, now_us, optional(reader).filter(|_| !is_allowed));
    out.push(b'}');
}

fn put_descriptor(out: &mut Vec<u8>, reader: &mut Reader<'_>) {
    let entries = reader.number();
    out.extend_from_slice(b"{\"entries\":[");
    let shown = put_rows(out, reader, |out, reader| {
        put_cut(out, b"{\"key\":", &reader.text(ENTRY));
        put_cut(out, b",\"value\":", &reader.text(ENTRY));
        out.push(b'}');
    });
    put_left_out(out, b"],\"entries_left_out\":", entries, shown);
    out.push(b'}');
}

/// Rows up to the mark of their end; says how many.
fn put_rows(
    out: &mut Vec<u8>,
    reader: &mut Reader<'_>,
    mut put: impl FnMut(&mut Vec<u8>, &mut Reader<'_>),
) -> u64 {
    let mut shown = 0;
    while reader.byte() == ROW {
        if shown > 0 {
            out.push(b',');
        }
        put(out, reader);
        shown += 1;
    }
    debug_assert_eq!(END, 0, "what stands past the end reads as an end");
    shown
}

fn put_left_out(out: &mut Vec<u8>, name: &[u8], all: u64, shown: u64) {
    out.extend_from_slice(name);
    put_number(out, all.saturating_sub(shown));
}

/// How long after the denial the same request passes, and when that is.
fn put_wait(out: &mut Vec<u8>, now_us: u64, wait_us: Option<u64>) {
    let Some(wait_us) = wait_us else {
        return out.extend_from_slice(b",\"retry_after_ms\":null,\"retry_at\":null");
    };
    put_count(out, b",\"retry_after_ms\":", wait_us.div_ceil(1000));
    let retry_at = Rfc3339(now_us.saturating_add(wait_us).next_multiple_of(1000)).to_string();
    put_member(out, b",\"retry_at\":", &retry_at);
}

/// A text as it can be shown; where it was cut, that is marked with how long it was.
pub fn put_cut(out: &mut Vec<u8>, name: &[u8], cut: &Cut<'_>) {
    let mut text = safe(cut.text);
    if cut.is_cut() {
        // Writing to a String cannot fail.
        let _ = write!(text, "… ({} bytes)", cut.whole);
    }
    put_member(out, name, &text);
}

fn put_member(out: &mut Vec<u8>, name: &[u8], text: &str) {
    out.extend_from_slice(name);
    put_text(out, text);
}

fn put_count(out: &mut Vec<u8>, name: &[u8], number: u64) {
    out.extend_from_slice(name);
    put_number(out, number);
}

fn put_flag(out: &mut Vec<u8>, name: &[u8], value: bool) {
    out.extend_from_slice(name);
    put_bool(out, value);
}

fn reason(reader: &mut Reader<'_>) -> &'static str {
    REASONS.get(usize::from(reader.byte())).map_or("", |reason| reason.as_str())
}

fn optional(reader: &mut Reader<'_>) -> Option<u64> {
    reader.number().checked_sub(1)
}
