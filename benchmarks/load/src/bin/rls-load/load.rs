//! The loop of the generator: all connections, their requests, the clock.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use mio::{Events, Interest, Poll, Token};
use serde_json::{Map, Value};
use tidegate_load::schedule::Schedule;
use tidegate_load::seconds::BySecond;
use tokio::time::Instant;

use crate::connection::{BUSY, Connection, IDLE, Room};
use crate::requests::Requests;
use crate::tally::Tally;

/// Idle connections that are opened at once, so that the server's queue of new ones holds them.
const OPENED_AT_ONCE: usize = 64;
/// How long answers may come after the end of a schedule.
const PATIENCE: Duration = Duration::from_secs(5);
const SCHEDULE: Token = Token(usize::MAX - 1);

/// What to drive, and how hard.
pub struct Options {
    pub address: SocketAddr,
    pub connections: usize,
    /// In flight on each connection; with a rate, as many as the schedule needs.
    pub streams: usize,
    pub rate: Option<u64>,
    /// What is measured of it.
    pub measure: Duration,
    /// On a schedule: looks at the clock all the time instead of sleeping between ticks.
    pub is_awake: bool,
}

/// A run. Times are microseconds since its start.
pub struct Load {
    address: SocketAddr,
    poll: Poll,
    events: Events,
    /// The busy ones first, then those that are idle.
    connections: Vec<Connection>,
    busy: usize,
    requests: Requests,
    tally: Tally,
    streams: usize,
    schedule: Option<Schedule>,
    is_awake: bool,
    /// Requests found due, and sent.
    due: u64,
    sent: u64,
    /// Ticks at which something was sent.
    turns: usize,
    random: u64,
    start: Instant,
}

impl Load {
    pub fn open(options: &Options, requests: Requests, mut tally: Tally) -> Result<Self, String> {
        let failed = |error: io::Error| format!("{}: {error}", options.address);
        let poll = Poll::new().map_err(failed)?;
        let seconds = options.measure.as_secs_f64().ceil() as usize;
        tally.by_second = options.rate.map(|_| BySecond::of_seconds(seconds));
        let schedule = options.rate.map(|rate| Schedule::new(rate, seconds, &poll, SCHEDULE));
        let mut load = Self {
            address: options.address,
            schedule: schedule.transpose().map_err(failed)?,
            poll,
            events: Events::with_capacity(1024),
            connections: Vec::with_capacity(options.connections),
            busy: options.connections,
            is_awake: options.is_awake,
            requests,
            tally,
            streams: options.streams,
            due: 0,
            sent: 0,
            turns: 0,
            random: 0x9e37_79b9_7f4a_7c15,
            start: Instant::now(),
        };
        for _ in 0..options.connections {
            load.connect(BUSY).map_err(failed)?;
        }
        load.start = Instant::now();
        Ok(load)
    }

    /// Opens connections that ask once and are silent from then on.
    pub fn open_idle(&mut self, count: usize) -> Result<(), String> {
        let mut left = count;
        while left > 0 {
            let first = self.connections.len();
            for _ in 0..left.min(OPENED_AT_ONCE) {
                self.connect(IDLE).map_err(|error| format!("an idle connection: {error}"))?;
                let now = self.now();
                let at = self.connections.len() - 1;
                self.send_one(at, now);
                self.connections[at].flush(&mut self.tally);
                left -= 1;
            }
            let until = self.now() + PATIENCE.as_micros() as u64;
            while self.connections[first..].iter().any(|connection| connection.in_flight() > 0) {
                if self.now() > until {
                    return Err("an idle connection got no answer to its one request".to_owned());
                }
                if self.connections[first..].iter().any(|connection| !connection.is_open()) {
                    return Err("the server has closed an idle connection".to_owned());
                }
                self.turn()?;
            }
        }
        Ok(())
    }

    /// Microseconds since the start.
    pub fn now(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    pub fn start_measuring(&mut self) {
        self.tally.is_measuring = true;
        let now = self.now();
        if let Some(schedule) = &mut self.schedule {
            schedule.measure(now);
            self.tally.asked_from = now;
        }
    }

    pub fn run_for(&mut self, time: Duration) -> Result<(), String> {
        let end = self.now() + time.as_micros() as u64;
        while self.now() < end {
            self.turn()?;
        }
        Ok(())
    }

    /// On a schedule, what was due is still answered, and counts; a closed loop ends where it is.
    pub fn finish(&mut self) -> Result<(), String> {
        let Some(schedule) = self.schedule.take() else { return Ok(()) };
        let end = self.now() + PATIENCE.as_micros() as u64;
        while self.now() < end && self.unanswered() > 0 {
            self.send_due(&schedule);
            self.flush();
            self.wait(Duration::from_millis(1))?;
        }
        for _ in 0..self.unanswered() {
            self.tally.error("no answer");
        }
        self.schedule = Some(schedule);
        Ok(())
    }

    pub fn report(&self, seconds: f64, cpu: &[(String, f64)]) -> Map<String, Value> {
        let (Some(schedule), Some(times)) = (&self.schedule, &self.tally.by_second) else {
            return self.tally.report(seconds, cpu);
        };
        let mut report = self.tally.report(seconds, cpu);
        report.extend(schedule.report(times, seconds.floor() as usize));
        report
    }

    fn connect(&mut self, room: Room) -> io::Result<()> {
        let mut connection = Connection::open(self.address, room)?;
        let both = Interest::READABLE | Interest::WRITABLE;
        let token = Token(self.connections.len());
        self.poll.registry().register(connection.socket(), token, both)?;
        self.connections.push(connection);
        Ok(())
    }

    fn unanswered(&self) -> u64 {
        let in_flight: usize = self.busy().iter().map(Connection::in_flight).sum();
        self.due - self.sent + in_flight as u64
    }

    fn busy(&self) -> &[Connection] {
        &self.connections[..self.busy]
    }

    /// Sends what may go, then waits for answers or the next tick, and takes what has come.
    fn turn(&mut self) -> Result<(), String> {
        let mut wait = Duration::from_millis(100);
        if let Some(mut schedule) = self.schedule.take() {
            self.due = schedule.due(self.now());
            self.send_due(&schedule);
            self.flush();
            let sleeps =
                !self.is_awake && schedule.arm(self.now()).map_err(|error| error.to_string())?;
            if !sleeps {
                wait = Duration::ZERO;
            }
            self.schedule = Some(schedule);
        } else {
            self.fill();
            self.flush();
        }
        self.wait(wait)
    }

    fn wait(&mut self, most: Duration) -> Result<(), String> {
        match self.poll.poll(&mut self.events, Some(most)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                return Err(error.to_string());
            }
            _ => {}
        }
        for event in self.events.iter().filter(|event| event.token() != SCHEDULE) {
            let at = event.token().0;
            let (connection, start) = (&mut self.connections[at], self.start);
            connection.receive(&mut self.tally, || start.elapsed().as_micros() as u64);
            if at >= self.busy {
                connection.flush(&mut self.tally);
            }
        }
        if self.busy().iter().all(|connection| !connection.is_open()) {
            return Err("the server has closed every connection".to_owned());
        }
        Ok(())
    }

    /// A closed loop: every stream is in use again.
    fn fill(&mut self) {
        let now = self.now();
        for at in 0..self.busy {
            while self.connections[at].in_flight() < self.streams && self.send_one(at, now) {}
        }
    }

    /// Sends what the schedule has due, what one tick found on one connection; a request that
    /// finds no stream there goes to the next, and stays due where there is none.
    fn send_due(&mut self, schedule: &Schedule) {
        if self.sent == self.due {
            return;
        }
        self.turns += 1;
        let first = self.turns;
        while self.sent < self.due {
            let due_at = schedule.due_at(self.sent);
            if !(0..self.busy).any(|offset| self.send_one((first + offset) % self.busy, due_at)) {
                return;
            }
            self.sent += 1;
        }
    }

    fn flush(&mut self) {
        for connection in &mut self.connections[..self.busy] {
            connection.flush(&mut self.tally);
        }
    }

    fn send_one(&mut self, at: usize, now: u64) -> bool {
        let connection = &mut self.connections[at];
        let index = (self.random % self.requests.len() as u64) as usize;
        let is_sent = connection.is_open() && connection.send(&self.requests, index, now);
        if is_sent {
            // Xorshift: keys in no order, the same in each run.
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
        }
        is_sent
    }
}
