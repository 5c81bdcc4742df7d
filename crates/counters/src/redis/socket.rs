//! A socket for blocking callers that keeps its deadlines.
//!
//! Socket time-outs of the kernel round up by several milliseconds, so the socket does not block
//! and `poll` waits, which is exact.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::connection::tune;
use super::error::StoreError;
use super::handshake::{self, Handshake};
use super::options::{Address, RedisOptions};
use super::resp::{self, Reply};
use super::sentinel::{Question, Sentinels, Tour};
use super::tls::{Need, Session, TlsOptions};
use crate::clock::Deadline;

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Tls(TcpStream, Session),
    Unix(UnixStream),
}

impl Stream {
    /// Connects and, for TLS, shakes hands; says until when the greeting may last.
    fn open(
        address: &Address,
        tls: Option<&TlsOptions>,
        budget: Duration,
    ) -> Result<(Self, Deadline), Failure> {
        let (host, port) = match address {
            Address::Tcp(host, port) => (host.as_str(), *port),
            Address::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_nonblocking(true)?;
                return Ok((Self::Unix(stream), Deadline::after(budget)));
            }
            Address::Cluster(_) | Address::Sentinels(_) => {
                return Err(Failure::Over(Arc::from("this names others, and is no server")));
            }
        };
        let Some(tls) = tls else {
            let (stream, deadline) = tcp(host, port, budget)?;
            return Ok((Self::Tcp(stream), deadline));
        };
        let config = tls.config().map_err(Failure::over)?;
        let (mut stream, deadline) = tcp(host, port, budget)?;
        let mut session = Session::new(config, host).map_err(Failure::over)?;
        shake(&mut stream, &mut session, deadline).inspect_err(|_| tls.forget())?;
        Ok((Self::Tls(stream, session), deadline))
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Tls(stream, session) => session.read(stream, buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }

    /// Takes bytes as [`Session::write`] does.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Tls(stream, session) => session.write(stream, bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    /// True while something that was taken waits for the socket.
    fn wants_write(&self) -> bool {
        matches!(self, Self::Tls(_, session) if session.wants_write())
    }

    /// False if there is something to read before the socket is asked.
    fn is_drained(&self) -> bool {
        !matches!(self, Self::Tls(_, session) if !session.is_drained())
    }

    fn wait(&self, flags: PollFlags, deadline: Deadline) -> Result<(), Failure> {
        let socket = match self {
            Self::Tcp(stream) | Self::Tls(stream, _) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        };
        wait(socket, flags, deadline)
    }
}

/// A greeted connection of one calling thread.
#[derive(Debug)]
pub(super) struct Socket {
    stream: Stream,
    input: Vec<u8>,
    /// Bytes of `input` that an answer already read has taken.
    used: usize,
}

/// Why a socket gave no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// The deadline is over.
    Late,
    /// The connection is.
    Over(Arc<str>),
    /// The server closed it.
    Closed,
    /// Its answers are not RESP.
    NotResp,
}

impl Failure {
    fn over(why: String) -> Self {
        Self::Over(why.into())
    }

    fn words(self) -> Arc<str> {
        match self {
            Self::Late => Arc::from("no answer in time"),
            Self::Over(why) => why,
            Self::Closed => Arc::from("closed by the server"),
            Self::NotResp => Arc::from("its answers are not RESP"),
        }
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Late => Self::Timeout { was_sent: true },
            failure => Self::Lost { why: failure.words() },
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if handshake::is_closed(&error) {
            return Self::Closed;
        }
        Self::Over(error.to_string().into())
    }
}

impl Socket {
    /// Connects and greets within the budget, which begins when the name is resolved; says why
    /// not.
    pub(super) fn open(
        options: &RedisOptions,
        budget: Duration,
    ) -> Result<(Self, Vec<String>), Arc<str>> {
        let Address::Sentinels(sentinels) = &options.address else {
            return Self::greeted(&options.address, options, budget).map_err(Arc::from);
        };
        let mut tour = Tour::new(sentinels, budget);
        while let Some((node, span)) = tour.next() {
            let opened = match Self::master(node, sentinels, options, span) {
                Ok(master) => match tour.visit(&master) {
                    Some(span) => Self::greeted(&master, options, span),
                    None => continue,
                },
                Err(why) => Err(why),
            };
            match opened {
                Ok(opened) => {
                    tour.found();
                    return Ok(opened);
                }
                Err(why) => tour.failed(why),
            }
        }
        Err(tour.why().into())
    }

    fn greeted(
        address: &Address,
        options: &RedisOptions,
        budget: Duration,
    ) -> Result<(Self, Vec<String>), String> {
        let mut handshake = Handshake::new(options);
        let request = std::mem::take(&mut handshake.request);
        let take = |reply: &Reply<'_>| Ok(handshake.accept(reply)?.then_some(()));
        let (socket, ()) = Self::asked(address, options, budget, &request, take)?;
        Ok((socket, handshake.warnings))
    }

    fn master(
        node: &Address,
        sentinels: &Sentinels,
        options: &RedisOptions,
        budget: Duration,
    ) -> Result<Address, String> {
        let mut question = Question::new(sentinels);
        let request = std::mem::take(&mut question.request);
        let take = |reply: &Reply<'_>| question.accept(reply);
        Ok(Self::asked(node, options, budget, &request, take)?.1)
    }

    /// Connects and asks, all within the budget.
    fn asked<T>(
        address: &Address,
        options: &RedisOptions,
        budget: Duration,
        request: &[u8],
        take: impl FnMut(&Reply<'_>) -> Result<Option<T>, String>,
    ) -> Result<(Self, T), String> {
        let opened = Stream::open(address, options.tls.as_ref(), budget);
        let asked = opened.and_then(|(stream, deadline)| {
            let mut socket = Self { stream, input: Vec::new(), used: 0 };
            let taken = socket.ask(deadline, request, take)?;
            Ok((socket, taken))
        });
        asked.map_err(|failure| match failure {
            Failure::Late => format!("{address}: no greeting in time"),
            failure => format!("{address}: {}", failure.words()),
        })
    }

    /// Says something and reads answers until `take` has what it wants.
    fn ask<T>(
        &mut self,
        deadline: Deadline,
        request: &[u8],
        mut take: impl FnMut(&Reply<'_>) -> Result<Option<T>, String>,
    ) -> Result<T, Failure> {
        let is_tls = matches!(self.stream, Stream::Tls(..));
        let written = self.write(request, deadline);
        let mut has_answered = false;
        loop {
            // Where the server has closed, what it said before that says why.
            match self.reply(deadline, &mut take) {
                Ok(Ok(None)) => has_answered = true,
                Ok(Ok(Some(taken))) => return Ok(taken),
                Ok(Err(why)) => return Err(Failure::over(why)),
                Err(Failure::Closed) => {
                    written?;
                    let why = handshake::closed(has_answered, is_tls, &self.input);
                    return Err(Failure::over(why));
                }
                Err(Failure::NotResp) => {
                    return Err(Failure::over(handshake::not_resp(&self.input)));
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// True if the server has neither closed the connection nor said anything unasked.
    pub(super) fn is_quiet(&mut self) -> bool {
        let mut byte = [0];
        let read = self.stream.read(&mut byte);
        self.used == self.input.len()
            && matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Writes all of it.
    pub(super) fn write(&mut self, mut bytes: &[u8], deadline: Deadline) -> Result<(), Failure> {
        while !bytes.is_empty() || self.stream.wants_write() {
            match self.stream.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.stream.wait(PollFlags::OUT, deadline)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Waits for the next answer and hands it over.
    pub(super) fn reply<T>(
        &mut self,
        deadline: Deadline,
        take: impl FnOnce(&Reply<'_>) -> T,
    ) -> Result<T, Failure> {
        loop {
            match resp::parse(&self.input[self.used..]) {
                Ok(Some((reply, length))) => {
                    self.used += length;
                    return Ok(take(&reply));
                }
                Ok(None) => {}
                Err(resp::NotResp) => return Err(Failure::NotResp),
            }
            self.input.drain(..self.used);
            self.used = 0;
            if self.stream.is_drained() {
                self.stream.wait(PollFlags::IN, deadline)?;
            }
            self.fill()?;
        }
    }

    /// The next answer, if it is here.
    pub(super) fn said<T>(
        &mut self,
        take: impl FnOnce(&Reply<'_>) -> T,
    ) -> Result<Option<T>, Failure> {
        self.fill()?;
        let said = resp::parse(&self.input[self.used..]).map_err(|_| Failure::NotResp)?;
        Ok(said.map(|(reply, length)| {
            self.used += length;
            take(&reply)
        }))
    }

    fn fill(&mut self) -> Result<(), Failure> {
        let mut chunk = [0; 16 * 1024];
        match self.stream.read(&mut chunk) {
            Ok(0) => Err(Failure::Closed),
            Ok(count) => {
                self.input.extend_from_slice(&chunk[..count]);
                Ok(())
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(()),
                _ => Err(error.into()),
            },
        }
    }
}

/// Connects to the first address of the name that answers in time; says until when the greeting
/// may last.
fn tcp(host: &str, port: u16, budget: Duration) -> Result<(TcpStream, Deadline), Failure> {
    let addresses = (host, port).to_socket_addrs()?;
    let deadline = Deadline::after(budget);
    let mut failure = Failure::Over(Arc::from("the name has no address"));
    for address in addresses {
        let left = deadline.left();
        if left.is_zero() {
            return Err(Failure::Late);
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => {
                tune(&stream)?;
                stream.set_nonblocking(true)?;
                return Ok((stream, deadline));
            }
            Err(error) => failure = error.into(),
        }
    }
    Err(failure)
}

fn shake(stream: &mut TcpStream, session: &mut Session, deadline: Deadline) -> Result<(), Failure> {
    while let Some(need) = session.shake(stream)? {
        let flags = match need {
            Need::Read => PollFlags::IN,
            Need::Write => PollFlags::OUT,
        };
        wait(stream.as_fd(), flags, deadline).map_err(|failure| match failure {
            Failure::Late => {
                let (what, hint) = TlsOptions::AWAITED;
                Failure::over(format!("no {what} in time{hint}"))
            }
            failure => failure,
        })?;
    }
    Ok(())
}

fn wait(socket: BorrowedFd<'_>, flags: PollFlags, deadline: Deadline) -> Result<(), Failure> {
    loop {
        let left = deadline.left();
        if left.is_zero() {
            return Err(Failure::Late);
        }
        let timeout =
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::from_borrowed_fd(socket, flags)], Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(io::Error::from(error).into()),
        }
    }
}
