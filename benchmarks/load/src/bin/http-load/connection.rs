//! One connection: a question out, its answer in, then the next.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;

use mio::net::TcpStream;

const ROOM: usize = 16 << 10;
const END: &[u8] = b"\r\n\r\n";

/// A connection with one question under way.
#[derive(Debug)]
pub struct Connection {
    socket: TcpStream,
    input: Vec<u8>,
    filled: usize,
    asked_at: u64,
}

/// What came back.
#[derive(Debug)]
pub struct Answer<'a> {
    pub asked_at: u64,
    pub status: u16,
    pub body: &'a [u8],
}

impl Answer<'_> {
    /// What makes it a wrong one.
    pub fn problem(&self) -> Option<String> {
        let says = |word: &[u8]| self.body.windows(word.len()).any(|window| window == word);
        if self.status != 200 {
            return Some(format!("HTTP {}", self.status));
        }
        if !says(br#""allowed":true"#) {
            return Some("not allowed".to_owned());
        }
        (!says(br#""degraded":false"#)).then(|| "degraded".to_owned())
    }
}

impl Connection {
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        let socket = std::net::TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        let socket = TcpStream::from_std(socket);
        Ok(Self { socket, input: vec![0; ROOM], filled: 0, asked_at: 0 })
    }

    pub const fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// Sends a question; the last one's answer has come.
    pub fn ask(&mut self, question: &[u8], now: u64) -> io::Result<()> {
        self.filled = 0;
        self.asked_at = now;
        // One small question always fits into an empty socket.
        match self.socket.write(question)? {
            count if count == question.len() => Ok(()),
            _ => Err(io::Error::other("the socket took half a question")),
        }
    }

    /// Reads what is there; the answer, if it is whole.
    pub fn receive(&mut self) -> io::Result<Option<Answer<'_>>> {
        loop {
            match self.socket.read(&mut self.input[self.filled..]) {
                Ok(0) => return Err(io::Error::other("closed by the server")),
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
            if let Some((status, start)) = whole(&self.input[..self.filled])? {
                let body = &self.input[start..self.filled];
                return Ok(Some(Answer { asked_at: self.asked_at, status, body }));
            }
        }
    }
}

/// Status, and where the body starts, once all of it is there.
fn whole(input: &[u8]) -> io::Result<Option<(u16, usize)>> {
    let broken = || io::Error::other("an answer that is no HTTP/1.1 with a length");
    let Some(end) = input.windows(END.len()).position(|window| window == END) else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&input[..end]).map_err(|_| broken())?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 "));
    let status = status.and_then(|rest| rest.get(..3)?.parse().ok()).ok_or_else(broken)?;
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let (start, length) = (end + END.len(), length.ok_or_else(broken)?);
    match input.len().cmp(&(start + length)) {
        std::cmp::Ordering::Less => Ok(None),
        std::cmp::Ordering::Equal => Ok(Some((status, start))),
        std::cmp::Ordering::Greater => Err(io::Error::other("more than one answer")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 35\r\n\r\n\
        {\"allowed\":true, \"degraded\":false  }";

    #[test]
    fn an_answer_counts_once_it_is_whole() {
        let body = br#"{"allowed":true,"degraded":false}"#;
        let mut answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        answer.push_str(std::str::from_utf8(body).unwrap());
        let answer = answer.as_bytes();
        for cut in 0..answer.len() {
            assert_eq!(whole(&answer[..cut]).unwrap(), None, "{cut}");
        }
        let (status, start) = whole(answer).unwrap().unwrap();
        let whole = Answer { asked_at: 0, status, body: &answer[start..] };
        assert_eq!((whole.status, whole.problem()), (200, None));
    }

    #[test]
    fn wrong_answers_are_named() {
        let answer = |status, body| Answer { asked_at: 0, status, body };
        assert_eq!(answer(429, b"").problem().unwrap(), "HTTP 429");
        assert_eq!(answer(200, br#"{"allowed":false}"#).problem().unwrap(), "not allowed");
        let degraded = br#"{"allowed":true,"degraded":true}"#;
        assert_eq!(answer(200, degraded).problem().unwrap(), "degraded");
        assert!(whole(b"HTTP/1.1 200 OK\r\n\r\n").is_err(), "no length");
        assert!(whole(&[ANSWER, b"HTTP"].concat()).is_err(), "an answer to no question");
    }
}
