//! Callers that block: each thread has a connection of its own, so no lock is taken, no thread of
//! ours runs, and a process that forks cannot share one with its parent.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_core::Plan;

use super::backoff::Backoff;
use super::blocking_cluster;
use super::call::{By, Call, Kind, whole};
use super::error::{Remedy, StoreError};
use super::options::Address;
use super::outcome::{self, RECORD};
use super::prober::Probe;
use super::replicas;
use super::resp::Reply;
use super::socket::Socket;
use super::store::Shared;
use crate::Outcomes;
use crate::clock::Deadline;

/// What even a doubtful attempt to connect and greet may take, look-up of the name aside, for each
/// connection that it needs.
const SHORTEST_ATTEMPT: Duration = Duration::from_millis(20);

thread_local! {
    static CALLERS: RefCell<Vec<Caller>> = const { RefCell::new(Vec::new()) };
}

/// One thread's connection to one store.
#[derive(Debug)]
struct Caller {
    store: Weak<Shared>,
    /// A child of a fork must not speak on its parent's socket.
    process: u32,
    socket: Option<Socket>,
    backoff: Backoff,
    /// After an attempt that failed: when the next one may be made, and why it failed.
    rest: Option<(Deadline, Arc<str>)>,
    spare: Option<Call>,
    output: Vec<u8>,
    /// Where replicas are behind: who asks on after them, and nothing waits meanwhile.
    probe: Option<Probe>,
}

/// A call with the requests in it: the plan's place and its operations.
#[derive(Debug)]
struct Packed {
    call: Call,
    seats: Vec<(usize, Range<u32>)>,
    is_settled: bool,
}

type Results = Vec<Result<Outcomes, StoreError>>;

/// Decides the plans in order, in as few calls as hold them, all written before any is read.
pub(super) fn decide(shared: &Arc<Shared>, plans: &[Plan<'_>]) -> Results {
    if let Address::Cluster(_) = shared.options.address {
        return blocking_cluster::decide(shared, plans);
    }
    with_caller(shared, |caller| caller.decide(shared, plans))
}

/// Deletes the counters that a plan meets.
pub(super) fn reset(shared: &Arc<Shared>, plan: &Plan<'_>) -> Result<(), StoreError> {
    if plan.asked().next().is_none() {
        return Ok(());
    }
    if let Address::Cluster(_) = shared.options.address {
        return blocking_cluster::reset(shared, plan);
    }
    with_caller(shared, |caller| {
        let deadline = caller.connect(shared)?;
        let mut call = Call::default();
        call.clear(Kind::Delete, None);
        call.push(&shared.keys, plan, whole);
        caller.output.clear();
        call.write(&mut caller.output, By::Hash);
        let answer = caller.write(deadline).and_then(|()| {
            caller.read(deadline, |reply| match reply {
                Reply::Integer(_) => Ok(()),
                Reply::Error(words) => Err(StoreError::refused(words)),
                _ => Err(StoreError::Protocol),
            })?
        });
        answer.inspect_err(|error| caller.failed(shared, error))
    })
}

fn with_caller<T>(shared: &Arc<Shared>, run: impl FnOnce(&mut Caller) -> T) -> T {
    CALLERS.with_borrow_mut(|callers| {
        let process = std::process::id();
        callers.retain(|caller| caller.process == process && caller.store.strong_count() > 0);
        let ours = Arc::as_ptr(shared);
        let known = callers.iter().position(|caller| caller.store.as_ptr() == ours);
        let at = known.unwrap_or_else(|| {
            callers.push(Caller::new(Arc::downgrade(shared), process));
            callers.len() - 1
        });
        run(&mut callers[at])
    })
}

impl Caller {
    fn new(store: Weak<Shared>, process: u32) -> Self {
        Self {
            store,
            process,
            socket: None,
            backoff: Backoff::new(),
            rest: None,
            spare: None,
            output: Vec::new(),
            probe: None,
        }
    }

    /// Sees that a connection stands and starts the deadline.
    fn connect(&mut self, shared: &Shared) -> Result<Deadline, StoreError> {
        let options = &shared.options;
        if self.socket.as_mut().is_some_and(|socket| !socket.is_quiet()) {
            self.socket = None;
        }
        if self.socket.is_none() {
            if let Some((_, why)) = self.rest.as_ref().filter(|(until, _)| !until.is_over()) {
                return Err(StoreError::Disconnected { why: Arc::clone(why) });
            }
            // The first attempt of all may take its time; once the store has failed anybody,
            // callers do not hang on it.
            let is_doubtful = self.rest.is_some() || shared.health.has_failed();
            let leg = SHORTEST_ATTEMPT.max(options.deadline * 2);
            let short = options.connect_timeout.min(leg * options.legs());
            let budget = if is_doubtful { short } else { options.connect_timeout };
            match Socket::open(options, budget) {
                Ok((socket, warnings)) => {
                    shared.health.greeted(warnings);
                    self.socket = Some(socket);
                }
                Err(why) => {
                    shared.health.failed(&why);
                    self.rest = Some((Deadline::after(self.backoff.wait()), Arc::clone(&why)));
                    return Err(StoreError::Disconnected { why });
                }
            }
        }
        Ok(Deadline::after(options.deadline))
    }

    fn decide(&mut self, shared: &Shared, plans: &[Plan<'_>]) -> Results {
        let mut results: Results = plans.iter().map(|_| Ok(Outcomes::new())).collect();
        let mut packed = self.pack(shared, plans);
        if packed.is_empty() {
            return results;
        }
        let answered = self
            .connect(shared)
            .and_then(|deadline| self.answer_all(shared, deadline, &mut packed, &mut results));
        match answered {
            Ok(()) => {
                self.backoff.reset();
                self.rest = None;
            }
            Err(error) => {
                self.failed(shared, &error);
                for one in packed.iter().filter(|one| !one.is_settled) {
                    one.fail(&error, &mut results);
                }
            }
        }
        self.spare = packed.pop().map(|one| one.call).or(self.spare.take());
        results
    }

    fn pack(&mut self, shared: &Shared, plans: &[Plan<'_>]) -> Vec<Packed> {
        let fake_now = shared.fake_now();
        let mut packed: Vec<Packed> = Vec::new();
        for (at, plan) in plans.iter().enumerate() {
            let operations = plan.asked().count();
            if operations == 0 {
                continue;
            }
            if !packed
                .last()
                .is_some_and(|one| one.call.has_room(operations, shared.options.batch, fake_now))
            {
                let mut call = self.spare.take().unwrap_or_default();
                call.clear(Kind::Decide, fake_now);
                packed.push(Packed { call, seats: Vec::new(), is_settled: false });
            }
            if let Some(one) = packed.last_mut() {
                let operations = one.call.push(&shared.keys, plan, whole);
                one.seats.push((at, operations));
            }
        }
        packed
    }

    /// Writes what is packed, then reads the answers in order. Calls that did not run because
    /// the server lacks the script go once more, the first of them with its text.
    fn answer_all(
        &mut self,
        shared: &Shared,
        deadline: Deadline,
        packed: &mut [Packed],
        results: &mut Results,
    ) -> Result<(), StoreError> {
        for is_last_round in [false, true] {
            self.output.clear();
            let mut by = if is_last_round { By::Text } else { By::Hash };
            for one in packed.iter().filter(|one| !one.is_settled) {
                one.call.write(&mut self.output, by);
                by = By::Hash;
            }
            if self.output.is_empty() {
                break;
            }
            if self.socket.is_none() {
                // The first round has left it to who asks after replicas.
                self.connect(shared)?;
            }
            let is_charging = packed.iter().any(|one| !one.is_settled && one.call.is_charging());
            let counts_replicas = shared.options.wait_replicas > 0 && is_charging;
            let asks_for_replicas = counts_replicas && !self.is_short(shared);
            if asks_for_replicas {
                replicas::append_wait(&mut self.output, &shared.options);
            }
            let before: Vec<bool> = packed.iter().map(|one| one.is_settled).collect();
            self.write(deadline)?;
            let mut read = self.read_round(shared, deadline, packed, results, is_last_round);
            if asks_for_replicas {
                read = read.and_then(|decisions| {
                    self.read_replicas(shared, deadline, decisions).map(|()| decisions)
                });
                if read.is_err() {
                    // Nobody has said that replicas have what this round was answered.
                    for (one, was_settled) in packed.iter_mut().zip(before) {
                        one.is_settled = was_settled;
                    }
                }
            } else if counts_replicas && let Ok(decisions) = read {
                shared.health.unreplicated(decisions, replicas::late(&shared.options));
            }
            read?;
        }
        Ok(())
    }

    /// True as long as replicas are known to be behind.
    fn is_short(&mut self, shared: &Shared) -> bool {
        if self.probe.as_mut().is_some_and(Probe::is_over) {
            self.probe = None;
            shared.health.replicated();
        }
        self.probe.is_some()
    }

    /// Waits for what the server says of replicas, but not so long that the answers which stand
    /// come too late. A connection on which they are behind is left to who asks on.
    fn read_replicas(
        &mut self,
        shared: &Shared,
        deadline: Deadline,
        decisions: usize,
    ) -> Result<(), StoreError> {
        let options = &shared.options;
        let most = Deadline::after(options.deadline / 2).min(deadline);
        let note = |reply: &Reply<'_>| {
            replicas::note(reply, decisions, options, &shared.health);
            replicas::is_short(reply, options)
        };
        let is_asked = match self.read(most, note) {
            Ok(false) => return Ok(()),
            Ok(true) => false,
            Err(StoreError::Timeout { .. }) => {
                shared.health.unreplicated(decisions, replicas::late(options));
                true
            }
            Err(error) => return Err(error),
        };
        let socket = self.socket.take();
        self.probe = socket.map(|socket| Probe::new(socket, options, is_asked));
        Ok(())
    }

    /// Reads the answers to what was written in one round; says how many decisions they gave.
    fn read_round(
        &mut self,
        shared: &Shared,
        deadline: Deadline,
        packed: &mut [Packed],
        results: &mut Results,
        is_last_round: bool,
    ) -> Result<usize, StoreError> {
        let mut decisions = 0;
        for one in packed.iter_mut().filter(|one| !one.is_settled) {
            let answer = self.read(deadline, |reply| one.take(reply, results))?;
            let Err(error) = answer else {
                decisions += one.seats.len();
                continue;
            };
            let remedy = error.remedy();
            if remedy == Remedy::SendAgain && !is_last_round {
                continue;
            }
            one.fail(&error, results);
            one.is_settled = true;
            shared.health.failed(&error.to_string().into());
            if remedy == Remedy::Reconnect {
                return Err(error);
            }
        }
        Ok(decisions)
    }

    fn write(&mut self, deadline: Deadline) -> Result<(), StoreError> {
        let Some(socket) = &mut self.socket else { return Err(StoreError::Protocol) };
        socket.write(&self.output, deadline).map_err(StoreError::from)
    }

    fn read<T>(
        &mut self,
        deadline: Deadline,
        take: impl FnOnce(&Reply<'_>) -> T,
    ) -> Result<T, StoreError> {
        let Some(socket) = &mut self.socket else { return Err(StoreError::Protocol) };
        socket.reply(deadline, take).map_err(StoreError::from)
    }

    /// Drops a socket that is out of step or of no use. After silence or a cut the next call
    /// tries again at once; a server that refuses is left alone for a while.
    fn failed(&mut self, shared: &Shared, error: &StoreError) {
        let pause = match error {
            StoreError::Timeout { .. } | StoreError::Lost { .. } => Duration::ZERO,
            _ if error.remedy() == Remedy::Reconnect => self.backoff.wait(),
            _ => return,
        };
        let why: Arc<str> = error.to_string().into();
        shared.health.failed(&why);
        self.socket = None;
        self.rest = Some((Deadline::after(pause), why));
    }
}

impl Packed {
    /// Hands each request its part of the reply.
    fn take(&mut self, reply: &Reply<'_>, results: &mut Results) -> Result<(), StoreError> {
        let records = match reply {
            Reply::Bulk(Some(records)) if records.len() == self.call.reply_length() => records,
            Reply::Error(words) => return Err(StoreError::refused(words)),
            _ => return Err(StoreError::Protocol),
        };
        for (at, operations) in &self.seats {
            let bytes = operations.start as usize * RECORD..operations.end as usize * RECORD;
            results[*at] = outcome::outcomes(&records[bytes]);
        }
        self.is_settled = true;
        Ok(())
    }

    fn fail(&self, error: &StoreError, results: &mut Results) {
        for (at, _) in &self.seats {
            results[*at] = Err(error.clone());
        }
    }
}
