//! A socket for blocking callers that keeps its deadlines.
//!
//! Socket time-outs of the kernel round up by several milliseconds, so the socket does not block
//! and `poll` waits, which is exact.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::connection::tune;
use super::error::StoreError;
use super::handshake::Handshake;
use super::options::{Address, RedisOptions};
use super::resp::{self, Reply};
use crate::clock::Deadline;

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
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
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Late => Self::Timeout { was_sent: true },
            Failure::Over(why) => Self::Lost { why },
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
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
        let address = &options.address;
        Self::greeted(options, budget).map_err(|failure| match failure {
            Failure::Late => format!("{address}: no greeting in time").into(),
            Failure::Over(why) => format!("{address}: {why}").into(),
        })
    }

    fn greeted(options: &RedisOptions, budget: Duration) -> Result<(Self, Vec<String>), Failure> {
        let (stream, deadline) = connect(&options.address, budget)?;
        let mut socket = Self { stream, input: Vec::new(), used: 0 };
        let mut handshake = Handshake::new(options);
        socket.write(&handshake.request, deadline)?;
        let mut is_done = false;
        while !is_done {
            is_done = socket
                .reply(deadline, |reply| handshake.accept(reply))?
                .map_err(|error| Failure::Over(error.to_string().into()))?;
        }
        Ok((socket, handshake.warnings))
    }

    /// True if the server has neither closed the connection nor said anything unasked.
    pub(super) fn is_quiet(&mut self) -> bool {
        let mut byte = [0];
        let read = match &mut self.stream {
            Stream::Tcp(stream) => stream.read(&mut byte),
            Stream::Unix(stream) => stream.read(&mut byte),
        };
        self.used == self.input.len()
            && matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Writes all of it.
    pub(super) fn write(&mut self, mut bytes: &[u8], deadline: Deadline) -> Result<(), Failure> {
        while !bytes.is_empty() {
            let written = match &mut self.stream {
                Stream::Tcp(stream) => stream.write(bytes),
                Stream::Unix(stream) => stream.write(bytes),
            };
            match written {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(PollFlags::OUT, deadline)?;
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
                Err(resp::NotResp) => {
                    return Err(Failure::Over(Arc::from("its answers are not RESP")));
                }
            }
            self.input.drain(..self.used);
            self.used = 0;
            self.wait(PollFlags::IN, deadline)?;
            self.fill()?;
        }
    }

    fn fill(&mut self) -> Result<(), Failure> {
        let mut chunk = [0; 16 * 1024];
        let read = match &mut self.stream {
            Stream::Tcp(stream) => stream.read(&mut chunk),
            Stream::Unix(stream) => stream.read(&mut chunk),
        };
        match read {
            Ok(0) => Err(Failure::Over(Arc::from("closed by the server"))),
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

    fn wait(&self, flags: PollFlags, deadline: Deadline) -> Result<(), Failure> {
        loop {
            let left = deadline.left();
            if left.is_zero() {
                return Err(Failure::Late);
            }
            let timeout =
                Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            let mut ready = [match &self.stream {
                Stream::Tcp(stream) => PollFd::new(stream, flags),
                Stream::Unix(stream) => PollFd::new(stream, flags),
            }];
            match poll(&mut ready, Some(&timeout)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
    }
}

/// Connects to the first address of the name that answers in time; says until when the greeting
/// may last.
fn connect(address: &Address, budget: Duration) -> Result<(Stream, Deadline), Failure> {
    let (host, port) = match address {
        Address::Tcp(host, port) => (host.as_str(), *port),
        Address::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_nonblocking(true)?;
            return Ok((Stream::Unix(stream), Deadline::after(budget)));
        }
        Address::Cluster(_) => return Err(io::Error::from(io::ErrorKind::Unsupported).into()),
    };
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
                return Ok((Stream::Tcp(stream), deadline));
            }
            Err(error) => failure = error.into(),
        }
    }
    Err(failure)
}
