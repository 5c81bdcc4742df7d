//! `GET /metrics`: what was counted, as Prometheus reads it. Labels are names from the policy,
//! never a tenant or a key, so their number is bounded.

use std::sync::atomic::{AtomicU64, Ordering};

use hyper::StatusCode;

use super::answer::{Answered, body};
use super::connection::HttpDoor;
use crate::journal::journal;
use crate::metrics::{Kind, Page, Timed};
use crate::node::Node;

/// The page.
pub fn page(door: &HttpDoor) -> Answered {
    let mut page = Page::default();
    let node = door.node.node();
    decisions(&mut page, node);
    store(&mut page, node);
    policy(&mut page, node);
    doors(&mut page, door);
    body(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", page.finish().into_bytes())
}

fn decisions(page: &mut Page, node: &Node) {
    let name = "tidegate_decisions_total";
    page.metric(name, Kind::Counter, "Requests decided; domain=\"\" is none of the policy.");
    for (domain, totals) in node.metrics().by_domain() {
        page.sample(name, &[("domain", &domain), ("result", "allowed")], totals.allowed);
        page.sample(name, &[("domain", &domain), ("result", "denied")], totals.denied);
    }
    let name = "tidegate_limit_decisions_total";
    page.metric(name, Kind::Counter, "What each limit said of the requests that it met.");
    for ((domain, limit), totals) in node.metrics().by_limit() {
        let results = [
            ("allowed", totals.allowed),
            ("denied", totals.denied),
            ("shadow_denied", totals.shadow_denied),
        ];
        for (result, total) in results {
            let labels = [("domain", &*domain), ("limit", &*limit), ("result", result)];
            page.sample(name, &labels, total);
        }
    }
    let name = "tidegate_near_limit_decisions_total";
    page.metric(name, Kind::Counter, "Requests that a limit let pass with a fifth or less left.");
    for ((domain, limit), totals) in node.metrics().by_limit() {
        page.sample(name, &[("domain", &domain), ("limit", &limit)], totals.near);
    }
}

fn store(page: &mut Page, node: &Node) {
    let name = "tidegate_degraded_decisions_total";
    page.metric(name, Kind::Counter, "Decisions by on_store_failure, by what the store did.");
    for (reason, total) in node.metrics().degraded() {
        page.sample(name, &[("reason", reason)], total);
    }
    let name = "tidegate_store_errors_total";
    page.metric(name, Kind::Counter, "The same decisions by the class of the store's error.");
    for (class, total) in node.metrics().store_errors() {
        page.sample(name, &[("class", class)], total);
    }
    node.store().metrics(page);
    if !node.is_immediate() {
        let help = "How long the store took to answer; one in 16 is timed.";
        node.metrics().times(Timed::Store).single(page, "tidegate_store_duration_seconds", help);
    }
}

fn policy(page: &mut Page, node: &Node) {
    let reloads = node.reloads();
    let name = "tidegate_policy_info";
    page.metric(name, Kind::Gauge, "The revision in force.");
    if let Some(revision) = node.revision() {
        page.sample(name, &[("revision", &revision)], 1);
        let age_us = node.clock().now_us().saturating_sub(reloads.loaded_at_us);
        let help = "Seconds since the policy in force was loaded.";
        page.single("tidegate_policy_age_seconds", Kind::Gauge, help, age_us / 1_000_000);
    }
    let help = "Policies that were refused; the one in force stayed.";
    page.single("tidegate_policy_reload_failures_total", Kind::Counter, help, reloads.failures);
    let is_ready = u8::from(node.readiness().is_ready());
    page.single("tidegate_ready", Kind::Gauge, "1 if requests should come.", is_ready);
}

fn doors(page: &mut Page, door: &HttpDoor) {
    // Totals that order nothing else: Relaxed.
    let get = |total: &AtomicU64| total.load(Ordering::Relaxed);
    let (grpc, http) = (&door.grpc_stats, &door.stats);
    let name = "tidegate_connections";
    page.metric(name, Kind::Gauge, "Connections open now.");
    page.sample(name, &[("door", "grpc")], grpc.open());
    let open = get(&http.opened).saturating_sub(get(&http.closed));
    page.sample(name, &[("door", "http")], open);
    let name = "tidegate_request_duration_seconds";
    page.metric(name, Kind::Histogram, "From a request to its answer; one in 16 is timed.");
    let metrics = door.node.node().metrics();
    metrics.times(Timed::Grpc).write(page, name, &[("door", "grpc")]);
    metrics.times(Timed::Http).write(page, name, &[("door", "http")]);
    let name = "tidegate_connections_failed_total";
    page.metric(name, Kind::Counter, "Connections that were turned away or cut.");
    page.sample(name, &[("reason", "tls")], get(&door.opening_stats.failed_tls));
    let opening = &door.opening_stats;
    let malformed = get(&opening.malformed) + get(&grpc.malformed) + get(&grpc.failed_handshakes);
    for (reason, total) in [
        ("silent", get(&opening.silent)),
        ("full", get(&opening.full)),
        ("peer_full", get(&opening.crowded)),
        ("malformed", malformed),
        ("unresponsive", get(&opening.unread) + get(&grpc.unresponsive)),
    ] {
        page.sample(name, &[("reason", reason)], total);
    }
    let help = "Certificate files that were refused; the ones in force stayed.";
    let refused = door.certificates.as_ref().map_or(0, |certificates| certificates.failed());
    page.single("tidegate_tls_reload_failures_total", Kind::Counter, help, refused);
    let name = "tidegate_panics_total";
    page.metric(name, Kind::Counter, "Requests whose handling panicked: bugs.");
    page.sample(name, &[("door", "grpc")], get(&grpc.panics));
    page.sample(name, &[("door", "http")], get(&http.panics));
    let name = "tidegate_log_dropped_total";
    let help = "Lines that the log had no room for.";
    page.single(name, Kind::Counter, help, journal().dropped());
    let name = "tidegate_spans_dropped_total";
    let help = "Spans that found no room, or did not reach the collector.";
    let spans = door.node.node().spans();
    page.single(name, Kind::Counter, help, spans.map_or(0, |spans| spans.dropped()));
    let name = "tidegate_grpc_refused_total";
    page.metric(name, Kind::Counter, "gRPC requests that were malformed, unknown or too late.");
    page.sample(name, &[], get(&grpc.refused));
    let name = "tidegate_grpc_cancelled_total";
    page.metric(name, Kind::Counter, "gRPC requests that the client took back.");
    page.sample(name, &[], get(&grpc.cancelled));
}
