//! A generator of HTTP/1.1 questions: prebuilt, on connections that stay open, no pipelining.
//!
//! Each connection has one question under way. Every answer is checked; prints one JSON object.
//!
//! It never sleeps, for a server that wakes its peer pays for that, and would pay the more the slower
//! it is: who keeps a generator waiting finds it asleep.

mod connection;
mod questions;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use mio::{Events, Interest, Poll, Token};
use serde_json::{Value, json};
use tidegate_load::arguments::{Arguments, to_hex};
use tidegate_load::count::Count;
use tidegate_load::pin::pin;
use tidegate_load::processes::Processes;
use tokio::time::Instant;

use connection::Connection;
use questions::Questions;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BODY: &str =
    r#"{"domain":"bench","descriptors":[{"tenant":"acme-{i%100}","api_key":"key-{i}"}]}"#;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("http-load: {problem}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<(), String> {
    let mut arguments = Arguments::from_env(&[])?;
    let address: SocketAddr =
        arguments.optional("address")?.ok_or("--address HOST:PORT is needed")?;
    let connections = arguments.or("connections", 64)?;
    let warmup = Duration::from_secs_f64(arguments.or("warmup", 1.0)?);
    let seconds = Duration::from_secs_f64(arguments.or("seconds", 5.0)?);
    let keys = arguments.or("keys", 10_000)?;
    let path = arguments.or("path", "/v1/check".to_owned())?;
    let body = arguments.or("body", BODY.to_owned())?;
    let processes = Processes::parse(&arguments.or("watch", String::new())?)?;
    let core: Option<usize> = arguments.optional("core")?;
    arguments.finish()?;
    if let Some(core) = core {
        pin(core)?;
    }
    let questions = Questions::build(&path, &address.to_string(), &body, keys)?;
    let mut load = Load::open(address, connections, questions)?;
    load.run_for(warmup)?;
    load.count.is_measuring = true;
    let (used_before, from) = (processes.used()?, load.now());
    load.run_for(seconds)?;
    let (used_after, to) = (processes.used()?, load.now());
    let cpu = processes.between(&used_before, &used_after);
    let mut report = load.count.report((to - from) as f64 / 1e6, &cpu);
    report.insert("answer".to_owned(), json!(to_hex(&load.answer)));
    println!("{}", Value::Object(report));
    Ok(())
}

struct Load {
    poll: Poll,
    events: Events,
    connections: Vec<Connection>,
    questions: Questions,
    count: Count,
    /// The body of the last answer.
    answer: Vec<u8>,
    start: Instant,
}

impl Load {
    fn open(address: SocketAddr, connections: usize, asked: Questions) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{address}: {error}");
        let poll = Poll::new().map_err(failed)?;
        let mut open = Vec::with_capacity(connections);
        for token in 0..connections {
            let mut connection = Connection::open(address).map_err(failed)?;
            let socket = connection.socket();
            poll.registry().register(socket, Token(token), Interest::READABLE).map_err(failed)?;
            open.push(connection);
        }
        let mut load = Self {
            poll,
            events: Events::with_capacity(1024),
            connections: open,
            questions: asked,
            count: Count::default(),
            answer: Vec::new(),
            start: Instant::now(),
        };
        for connection in &mut load.connections {
            connection.ask(load.questions.next(), 0).map_err(failed)?;
        }
        Ok(load)
    }

    /// Microseconds since the start.
    fn now(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    fn run_for(&mut self, time: Duration) -> Result<(), String> {
        let end = self.now() + time.as_micros() as u64;
        while self.now() < end {
            self.poll
                .poll(&mut self.events, Some(Duration::ZERO))
                .map_err(|error| error.to_string())?;
            let now = self.now();
            self.count.at(now);
            for event in &self.events {
                let connection = &mut self.connections[event.token().0];
                match connection.receive() {
                    Ok(None) => continue,
                    Ok(Some(answer)) => {
                        match answer.problem() {
                            None => drop(self.count.good(now.saturating_sub(answer.asked_at))),
                            Some(problem) => self.count.error(problem),
                        }
                        self.answer.clear();
                        self.answer.extend_from_slice(answer.body);
                    }
                    Err(error) => return Err(format!("a connection broke: {error}")),
                }
                let asked = connection.ask(self.questions.next(), now);
                asked.map_err(|error| format!("a connection broke: {error}"))?;
            }
        }
        Ok(())
    }
}
