//! A generator of rate limit calls over HTTP/2: prebuilt frames, every answer checked.
//!
//! Closed loop (so many streams always in flight) or, with `--rate`, on a schedule, where times
//! count from the moment a request was due; with `--awake` it does not sleep in between, for a core
//! that it has to itself or shares with a store that goes before it. With `--idle`, so many more
//! connections stand open and silent beside. Prints one JSON object; a run with any wrong or
//! degraded answer is void.

mod answers;
mod connection;
mod frames;
mod load;
mod requests;
mod tally;

use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tidegate_load::arguments::Arguments;
use tidegate_load::pin::pin;
use tidegate_load::processes::Processes;

use load::{Load, Options};
use requests::{Requests, Shape};
use tally::{Expect, Tally};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// After the idle connections stand, and before memory is read again.
const SETTLE: Duration = Duration::from_millis(500);

/// How long, and beside what.
struct Course {
    warmup: Duration,
    measure: Duration,
    idle: usize,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("rls-load: {problem}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<(), String> {
    let mut arguments = Arguments::from_env(&["awake"])?;
    let measure_for = Duration::from_secs_f64(arguments.or("seconds", 5.0)?);
    let options = Options {
        address: arguments.optional("address")?.ok_or("--address HOST:PORT is needed")?,
        connections: arguments.or("connections", 4)?,
        streams: arguments.or("streams", 64)?,
        rate: arguments.optional("rate")?,
        measure: measure_for,
        is_awake: arguments.flag("awake"),
    };
    if options.is_awake && options.rate.is_none() {
        return Err("--awake is of a schedule: give it with --rate".to_owned());
    }
    let course = Course {
        warmup: Duration::from_secs_f64(arguments.or("warmup", 1.0)?),
        measure: measure_for,
        idle: arguments.or("idle", 0)?,
    };
    let shape = Shape {
        domain: arguments.or("domain", "bench".to_owned())?,
        entries: arguments.or("entries", "tenant=acme-{i%100},api_key=key-{i}".to_owned())?,
        keys: arguments.or("keys", 10_000)?,
        hits: arguments.or("hits", 0)?,
        headers: arguments.or("headers", String::new())?,
    };
    let expect = arguments.or("expect", Expect::Ok)?;
    let processes = Processes::parse(&arguments.or("watch", String::new())?)?;
    let core: Option<usize> = arguments.optional("core")?;
    arguments.finish()?;
    if let Some(core) = core {
        pin(core)?;
    }
    let requests = Requests::build(&shape, &options.address.to_string())?;
    let load = Load::open(&options, requests, Tally::new(expect))?;
    let report = measure(load, &course, &processes)?;
    println!("{}", Value::Object(report));
    Ok(())
}

fn measure(
    mut load: Load,
    course: &Course,
    processes: &Processes,
) -> Result<Map<String, Value>, String> {
    load.run_for(course.warmup)?;
    let mut memory = Map::new();
    if course.idle > 0 {
        memory.insert("before_bytes".to_owned(), json!(processes.resident("server")?));
        load.open_idle(course.idle)?;
        load.run_for(SETTLE)?;
        memory.insert("after_bytes".to_owned(), json!(processes.resident("server")?));
    }
    load.start_measuring();
    let (used_before, from) = (processes.used()?, load.now());
    load.run_for(course.measure)?;
    let (used_after, to) = (processes.used()?, load.now());
    load.finish()?;
    let seconds = (to - from) as f64 / 1e6;
    let mut report = load.report(seconds, &processes.between(&used_before, &used_after));
    if !memory.is_empty() {
        report.insert("memory".to_owned(), Value::Object(memory));
    }
    Ok(report)
}
