//! What it costs to match one request among few and among many limits and tenants.

use std::hint::black_box;

use serde_json::{Value, json};
use tidegate_core::matching::Verb;
use tidegate_core::{Descriptor, Identities, Plan, RuleSet};
use tidegate_counters::Clock;

const ROUNDS: usize = 7;
const CALLS: usize = 200_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let few = measure(10, 100)?;
    let many = measure(1_000, 100)?;
    let crowded = measure(10, 10_000)?;
    println!(
        "{}",
        json!({"limits_10_ns": few, "limits_1000_ns": many, "tenants_100_ns": few,
               "tenants_10000_ns": crowded})
    );
    Ok(())
}

/// Median nanoseconds to plan one request that meets two limits: one exact, one by prefix.
fn measure(limits: usize, tenants: usize) -> Result<u64, Box<dyn std::error::Error>> {
    let bytes = serde_json::to_vec(&snapshot(limits, tenants))?;
    let rules = RuleSet::load(&bytes, &mut Identities::default())?;
    let domain = rules.domain(b"d").ok_or("the snapshot has a domain d")?;
    let requests: Vec<[String; 2]> = (0..512)
        .map(|at| [format!("tenant-{}", at * 7 % tenants), format!("/r{:04}/x", at % (limits / 2))])
        .collect();
    let clock = Clock::default();
    let now = clock.now_us();
    let mut figures = Vec::new();
    for _ in 0..ROUNDS {
        let start = clock.now_us();
        for call in 0..CALLS {
            let [tenant, route] = &requests[call % requests.len()];
            let exact = &route[..6];
            let path = if call % 2 == 0 { exact } else { route.as_str() };
            let entries: &[(&[u8], &[u8])] =
                &[(b"tenant", tenant.as_bytes()), (b"route", path.as_bytes())];
            let request =
                [Descriptor { entries, costs: &[(b"requests", 1)], verb: Verb::Hit, rate: None }];
            black_box(Plan::new(domain, &request, now)?);
        }
        figures.push((clock.now_us() - start) * 1_000 / CALLS as u64);
    }
    figures.sort_unstable();
    Ok(figures[ROUNDS / 2])
}

fn snapshot(limits: usize, tenants: usize) -> Value {
    let numbers = json!({"n": 100, "period_us": 60_000_000, "burst": 100});
    let rows: Vec<Value> = (0..limits)
        .map(|at| {
            let text = format!("/r{:04}", at / 2);
            let any = if at % 2 == 0 { json!({"exact": text}) } else { json!({"prefix": text}) };
            json!({"id": format!("l{at}"), "per": ["tenant"], "missing": "skip",
                   "when": [{"key": "route", "negate": false, "any": [any]}],
                   "counts": "requests", "algorithm": "token_bucket", "time_zone": null, "slots": 1, "conservative": false, "keyed_by_period": false,
                   "numbers": numbers, "on_store_failure": "open", "on_exceed": "reject",
                   "count_denied": false, "request_override": false})
        })
        .collect();
    let dated = json!([{"limit": 0, "from_us": null, "until_us": null, "numbers": numbers}]);
    let tenants: serde_json::Map<String, Value> = (0..tenants)
        .map(|at| (format!("tenant-{at}"), json!({"plan": 0, "overrides": dated})))
        .collect();
    json!({"format": 1, "revision": "0123456789ab", "calendars": {}, "domains": [
        {"name": "d", "tenant_key": "tenant", "limits": rows, "tenants": tenants,
         "plans": [{"name": "p", "numbers": [[1, numbers]]}]}]})
}
