//! What is told of hot counters, as JSON; texts are escaped, for they are what clients sent.

use super::{HALF_LIFE_US, ONE_IN, Report, Row, Standing};
use crate::explain::{NAME, Rfc3339, cut, put_cut};
use crate::json::{put_bool, put_number, put_text};

/// Writes a report as JSON, as of the time in unix microseconds that it was made for.
pub fn put_hot(out: &mut Vec<u8>, report: &Report, now_us: u64) {
    out.extend_from_slice(b"{\"time\":");
    put_text(out, &Rfc3339(now_us).to_string());
    put_count(out, b",\"half_life_ms\":", HALF_LIFE_US / 1000);
    put_count(out, b",\"one_in\":", u64::from(ONE_IN));
    put_decimal(out, b",\"per_second\":", report.per_second, 1);
    out.extend_from_slice(b",\"counters\":[");
    for (at, row) in report.rows.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        put_row(out, row);
    }
    out.extend_from_slice(b"]}");
}

fn put_row(out: &mut Vec<u8>, row: &Row) {
    let names = &row.names;
    put_cut(out, b"{\"domain\":", &cut(names.domain.as_bytes(), NAME));
    put_cut(out, b",\"id\":", &cut(names.id.as_bytes(), NAME));
    out.extend_from_slice(b",\"values\":[");
    for (at, (key, value)) in names.values().enumerate() {
        let begin: &[u8] = if at == 0 { b"{\"key\":" } else { b",{\"key\":" };
        put_cut(out, begin, &key);
        match value {
            Some(value) => put_cut(out, b",\"value\":", &value),
            None => out.extend_from_slice(b",\"value\":null"),
        }
        out.push(b'}');
    }
    put_count(out, b"],\"values_left_out\":", names.values_left_out);
    put_standing(out, &row.standing);
    put_decimal(out, b",\"per_second\":", row.per_second, 1);
    put_decimal(out, b",\"at_least\":", row.at_least, 1);
    put_decimal(out, b",\"at_most\":", row.at_most, 1);
    put_decimal(out, b",\"share\":", row.share, 4);
    put_decimal(out, b",\"denied_share\":", row.denied_share, 4);
    out.push(b'}');
}

fn put_standing(out: &mut Vec<u8>, standing: &Standing) {
    put_count(out, b",\"rate\":{\"n\":", standing.n);
    put_count(out, b",\"period_ms\":", standing.period_us / 1000);
    put_count(out, b"},\"limit\":", standing.limit);
    out.extend_from_slice(b",\"consistency\":");
    put_text(out, standing.consistency.as_str());
    out.extend_from_slice(b",\"decided_in\":");
    put_text(out, if standing.is_here { "node" } else { "store" });
    out.extend_from_slice(b",\"could_be_local\":");
    put_bool(out, standing.could_be_here);
}

fn put_count(out: &mut Vec<u8>, name: &[u8], number: u64) {
    out.extend_from_slice(name);
    put_number(out, number);
}

/// A number with so many decimals.
fn put_decimal(out: &mut Vec<u8>, name: &[u8], number: f64, decimals: usize) {
    out.extend_from_slice(name);
    out.extend_from_slice(format!("{number:.decimals$}").as_bytes());
}
