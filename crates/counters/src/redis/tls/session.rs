//! A TLS session over a socket that does not block: the same for workers and blocking callers.

use std::io::{self, Read, Write};
use std::sync::Arc;

use rustls::{ClientConfig, ClientConnection};

use super::options::server_name;
use super::words;

/// What a handshake waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::redis) enum Need {
    Read,
    Write,
}

/// Boxed: it is larger than all else that a connection is.
#[derive(Debug)]
pub(in crate::redis) struct Session(Box<ClientConnection>);

impl Session {
    pub(in crate::redis) fn new(config: Arc<ClientConfig>, host: &str) -> Result<Self, String> {
        let connection = ClientConnection::new(config, server_name(host)?);
        Ok(Self(Box::new(connection.map_err(|error| format!("TLS: {error}"))?)))
    }

    /// True while ciphertext waits for the socket.
    #[inline]
    pub(in crate::redis) fn wants_write(&self) -> bool {
        self.0.wants_write()
    }

    /// True if a read needs the socket: nothing is left of what it gave before.
    #[inline]
    pub(in crate::redis) fn is_drained(&self) -> bool {
        self.0.wants_read()
    }

    /// Goes on with the handshake; says what it waits for, or nothing once it is done.
    pub(in crate::redis) fn shake(
        &mut self,
        socket: &mut (impl Read + Write),
    ) -> io::Result<Option<Need>> {
        loop {
            match self.push(socket) {
                Ok(()) if !self.0.is_handshaking() => return Ok(None),
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Some(Need::Write));
                }
                Err(error) => return Err(error),
            }
            match self.0.read_tls(socket) {
                Ok(0) => {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "closed by the server during the TLS handshake; use redis:// for a port \
                         without TLS",
                    ));
                }
                Ok(_) => {}
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(Some(Need::Read)),
                    io::ErrorKind::Interrupted => continue,
                    _ => return Err(error),
                },
            }
            if let Err(error) = self.0.process_new_packets() {
                // The server's log should say why, too.
                let _ = self.push(socket);
                return Err(words::failed(&error));
            }
        }
    }

    /// Reads plaintext: what is here already, else what the socket gives. 0 at the end.
    #[inline]
    pub(in crate::redis) fn read(
        &mut self,
        socket: &mut impl Read,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        loop {
            match self.0.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // An answer says how long it is, so an end without a goodbye hides nothing.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            self.0.read_tls(socket)?;
            self.0.process_new_packets().map_err(|error| words::failed(&error))?;
        }
    }

    /// Takes plaintext and writes what the socket takes. What was taken must not be given again:
    /// what the socket has not taken of it stays here, as does an error, for the next call.
    #[inline]
    pub(in crate::redis) fn write(
        &mut self,
        socket: &mut impl Write,
        bytes: &[u8],
    ) -> io::Result<usize> {
        let count = self.0.writer().write(bytes)?;
        match self.push(socket) {
            Err(error) if count == 0 => Err(error),
            _ => Ok(count),
        }
    }

    /// Says goodbye where nothing is left that the server would take for a part of it.
    pub(super) fn close(&mut self, socket: &mut impl Write) {
        if !self.wants_write() && !self.0.is_handshaking() {
            self.0.send_close_notify();
            let _ = self.push(socket);
        }
    }

    fn push(&mut self, socket: &mut impl Write) -> io::Result<()> {
        while self.0.wants_write() {
            match self.0.write_tls(socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
