//! A generator of rate limit calls over HTTP/2: prebuilt frames, every answer checked.
//!
//! Closed loop (so many streams always in flight) or, with `--rate`, on a schedule, where times
//! count from the moment a request was due. Prints one JSON object; a run with any wrong or
//! degraded answer is void.

mod answers;
mod connection;
mod frames;
mod processes;
mod requests;
mod tally;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use mio::{Events, Interest, Poll, Token};
use tidegate_load::arguments::Arguments;
use tokio::time::Instant;

use connection::Connection;
use processes::Processes;
use requests::{Requests, Shape};
use tally::{Expect, Tally};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Options {
    address: SocketAddr,
    connections: usize,
    streams: usize,
    warmup: Duration,
    measure: Duration,
    rate: Option<u64>,
    core: Option<usize>,
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
    let mut arguments = Arguments::from_env(&[])?;
    let options = Options {
        address: arguments.optional("address")?.ok_or("--address HOST:PORT is needed")?,
        connections: arguments.or("connections", 4)?,
        streams: arguments.or("streams", 64)?,
        warmup: Duration::from_secs_f64(arguments.or("warmup", 1.0)?),
        measure: Duration::from_secs_f64(arguments.or("seconds", 5.0)?),
        rate: arguments.optional("rate")?,
        core: arguments.optional("core")?,
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
    arguments.finish()?;
    if let Some(core) = options.core {
        pin(core)?;
    }
    let requests = Requests::build(&shape, &options.address.to_string())?;
    let mut load = Load::open(&options, requests, Tally::new(expect))?;
    load.run_until(options.warmup)?;
    load.tally.is_measuring = true;
    let (used_before, from) = (processes.used()?, load.now());
    load.run_until(options.warmup + options.measure)?;
    let (used_after, to) = (processes.used()?, load.now());
    let seconds = (to - from) as f64 / 1e6;
    let report = load.tally.report(seconds, &processes.between(&used_before, &used_after));
    println!("{report}");
    Ok(())
}

fn pin(core: usize) -> Result<(), String> {
    let mut cores = rustix::thread::CpuSet::new();
    cores.set(core);
    rustix::thread::sched_setaffinity(None, &cores)
        .map_err(|error| format!("cannot run on core {core}: {error}"))
}

/// All connections, their requests and the clock.
struct Load {
    poll: Poll,
    events: Events,
    connections: Vec<Connection>,
    requests: Requests,
    tally: Tally,
    streams: usize,
    rate: Option<u64>,
    sent: u64,
    random: u64,
    start: Instant,
}

impl Load {
    fn open(options: &Options, requests: Requests, tally: Tally) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", options.address);
        let poll = Poll::new().map_err(failed)?;
        let mut connections = Vec::with_capacity(options.connections);
        for token in 0..options.connections {
            let mut connection = Connection::open(options.address).map_err(failed)?;
            let both = Interest::READABLE | Interest::WRITABLE;
            poll.registry().register(connection.socket(), Token(token), both).map_err(failed)?;
            connections.push(connection);
        }
        Ok(Self {
            poll,
            events: Events::with_capacity(options.connections),
            connections,
            requests,
            tally,
            streams: options.streams,
            rate: options.rate,
            sent: 0,
            random: 0x9e37_79b9_7f4a_7c15,
            start: Instant::now(),
        })
    }

    /// Microseconds since the start.
    fn now(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    fn run_until(&mut self, end: Duration) -> Result<(), String> {
        let end = end.as_micros() as u64;
        // A schedule is kept by looking at the clock all the time: the core is ours.
        let wait = if self.rate.is_some() { Duration::ZERO } else { Duration::from_millis(100) };
        loop {
            let now = self.now();
            if now >= end {
                return Ok(());
            }
            self.send(now);
            self.poll.poll(&mut self.events, Some(wait)).map_err(|error| error.to_string())?;
            for event in &self.events {
                let connection = &mut self.connections[event.token().0];
                let start = self.start;
                connection.receive(&mut self.tally, || start.elapsed().as_micros() as u64);
            }
            if self.connections.iter().all(|connection| !connection.is_open()) {
                return Err("the server has closed every connection".to_owned());
            }
        }
    }

    fn send(&mut self, now: u64) {
        match self.rate {
            None => {
                for connection in 0..self.connections.len() {
                    while self.connections[connection].in_flight() < self.streams
                        && self.send_one(connection, now)
                    {}
                }
            }
            Some(rate) => self.send_due(rate, now),
        }
        for connection in &mut self.connections {
            connection.flush(&mut self.tally);
        }
    }

    /// Sends what the schedule has due; a request that finds no stream stays due.
    fn send_due(&mut self, rate: u64, now: u64) {
        let due = u128::from(now) * u128::from(rate) / 1_000_000;
        while u128::from(self.sent) < due {
            let due_at = (u128::from(self.sent) * 1_000_000 / u128::from(rate)) as u64;
            let first = self.sent as usize;
            let count = self.connections.len();
            if !(0..count).any(|offset| self.send_one((first + offset) % count, due_at)) {
                return;
            }
        }
    }

    fn send_one(&mut self, connection: usize, now: u64) -> bool {
        let connection = &mut self.connections[connection];
        let index = (self.random % self.requests.len() as u64) as usize;
        let is_sent = connection.is_open() && connection.send(&self.requests, index, now);
        if is_sent {
            self.sent += 1;
            // Xorshift: keys in no order, the same in each run.
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
        }
        is_sent
    }
}
