//! One connection of the generator: requests out, answers in, all by frames.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;

use mio::net::TcpStream;

use crate::answers::{Block, Blocks};
use crate::frames::{self, HEAD_LEN, Head};
use crate::requests::Requests;
use crate::tally::Tally;

/// What a connection has room for.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Slots for open streams, found by stream id. An answer that is this many requests late
    /// holds the connection up.
    slots: usize,
    /// Bytes that are read at once.
    input: usize,
}

pub const BUSY: Room = Room { slots: 8192, input: 256 << 10 };
/// Ten thousand of them must not need gigabytes.
pub const IDLE: Room = Room { slots: 4, input: 4 << 10 };

#[derive(Clone, Default)]
struct Slot {
    /// Zero: free.
    stream: u32,
    sent_at: u64,
    head: Option<Block>,
    message: Vec<u8>,
}

/// A connection and its streams in flight.
pub struct Connection {
    socket: TcpStream,
    input: Vec<u8>,
    filled: usize,
    output: Vec<u8>,
    written: usize,
    slots: Vec<Slot>,
    next_stream: u32,
    in_flight: usize,
    most_streams: usize,
    send_window: i64,
    unacknowledged: u32,
    blocks: Blocks,
    is_open: bool,
}

impl Connection {
    pub fn open(address: SocketAddr, room: Room) -> io::Result<Self> {
        let socket = std::net::TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        let mut output = Vec::with_capacity(room.input);
        frames::put_opening(&mut output);
        Ok(Self {
            socket: TcpStream::from_std(socket),
            input: vec![0; room.input],
            filled: 0,
            output,
            written: 0,
            slots: vec![Slot::default(); room.slots],
            next_stream: 1,
            in_flight: 0,
            most_streams: room.slots / 2,
            send_window: i64::from(frames::DEFAULT_WINDOW),
            unacknowledged: 0,
            blocks: Blocks::new(),
            is_open: true,
        })
    }

    pub fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    pub fn is_open(&self) -> bool {
        self.is_open
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Sends one request if streams and window allow it.
    pub fn send(&mut self, requests: &Requests, index: usize, now: u64) -> bool {
        let data = i64::from(requests.data_len(index));
        let at = self.slot_of(self.next_stream);
        let slot = &mut self.slots[at];
        if self.in_flight >= self.most_streams || self.send_window < data || slot.stream != 0 {
            return false;
        }
        slot.stream = self.next_stream;
        slot.sent_at = now;
        slot.head = None;
        slot.message.clear();
        if self.next_stream == 1 {
            requests.put_first(&mut self.output, index, 1);
        } else {
            requests.put(&mut self.output, index, self.next_stream);
        }
        self.next_stream += 2;
        self.in_flight += 1;
        self.send_window -= data;
        true
    }

    /// Writes what is waiting.
    pub fn flush(&mut self, tally: &mut Tally) {
        while self.is_open && self.written < self.output.len() {
            match self.socket.write(&self.output[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => self.close(tally, &error.to_string()),
            }
        }
        self.output.clear();
        self.written = 0;
    }

    /// Reads and counts what has arrived.
    pub fn receive(&mut self, tally: &mut Tally, now: impl Fn() -> u64) {
        while self.is_open {
            match self.socket.read(&mut self.input[self.filled..]) {
                Ok(0) => self.close(tally, "closed by the server"),
                Ok(count) => {
                    self.filled += count;
                    let was_full = self.filled == self.input.len();
                    let now = now();
                    tally.at(now);
                    self.take_frames(tally, now);
                    if !was_full {
                        return;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => self.close(tally, &error.to_string()),
            }
        }
    }

    fn close(&mut self, tally: &mut Tally, why: &str) {
        self.is_open = false;
        tally.error(format!("connection: {why}"));
    }

    fn take_frames(&mut self, tally: &mut Tally, now: u64) {
        let input = std::mem::take(&mut self.input);
        let mut taken = 0;
        while let Some(head) = Head::parse(&input[taken..self.filled]) {
            let end = taken + HEAD_LEN + head.length;
            if end > self.filled {
                break;
            }
            self.take(head, &input[taken + HEAD_LEN..end], tally, now);
            taken = end;
        }
        self.input = input;
        self.input.copy_within(taken..self.filled, 0);
        self.filled -= taken;
    }

    fn take(&mut self, head: Head, payload: &[u8], tally: &mut Tally, now: u64) {
        match head.kind {
            frames::DATA => {
                self.credit(head.length as u32);
                let at = self.slot_of(head.stream);
                let slot = &mut self.slots[at];
                if slot.stream == head.stream {
                    slot.message.extend_from_slice(payload);
                }
                if head.flags & frames::END_STREAM != 0 {
                    self.finish(head.stream, Block::default(), tally, now);
                }
            }
            frames::HEADERS => self.take_headers(head, payload, tally, now),
            frames::SETTINGS if head.flags & frames::ACK == 0 => {
                for (id, value) in frames::settings(payload) {
                    match id {
                        frames::MAX_CONCURRENT_STREAMS => {
                            self.most_streams = (value as usize).min(self.slots.len() / 2);
                        }
                        frames::INITIAL_WINDOW_SIZE if value < 16_384 => {
                            tally.error("the server's stream window is too small for us");
                        }
                        _ => {}
                    }
                }
                frames::put_settings_ack(&mut self.output);
            }
            frames::PING if head.flags & frames::ACK == 0 => {
                frames::put_ping_ack(&mut self.output, payload);
            }
            frames::WINDOW_UPDATE if head.stream == 0 => {
                if let Some(increment) = payload.first_chunk::<4>() {
                    self.send_window += i64::from(u32::from_be_bytes(*increment) & 0x7fff_ffff);
                }
            }
            frames::RST_STREAM => {
                let code = payload.first_chunk::<4>().map_or(0, |code| u32::from_be_bytes(*code));
                tally.error(format!("stream reset with code {code}"));
                self.release(head.stream);
            }
            frames::GOAWAY => self.close(tally, "GOAWAY"),
            frames::CONTINUATION => self.close(tally, "an answer's headers are too long for us"),
            _ => {}
        }
    }

    fn take_headers(&mut self, head: Head, payload: &[u8], tally: &mut Tally, now: u64) {
        if head.flags & (frames::PADDED | frames::PRIORITY) != 0 {
            return self.close(tally, "padded or prioritised headers");
        }
        let Some(block) = self.blocks.read(payload) else {
            return self.close(tally, "an undecodable header block");
        };
        if head.flags & frames::END_STREAM != 0 {
            self.finish(head.stream, block, tally, now);
        } else {
            let at = self.slot_of(head.stream);
            let slot = &mut self.slots[at];
            if slot.stream == head.stream {
                slot.head = Some(block);
            }
        }
    }

    /// Counts an answer that has ended. A block that comes alone is head and trailer in one.
    fn finish(&mut self, stream: u32, trailer: Block, tally: &mut Tally, now: u64) {
        let at = self.slot_of(stream);
        let slot = &mut self.slots[at];
        if slot.stream != stream {
            return tally.error("an answer to no request");
        }
        let head = slot.head.unwrap_or(trailer);
        tally.answer(head, trailer, &slot.message, now.saturating_sub(slot.sent_at));
        self.release(stream);
    }

    fn release(&mut self, stream: u32) {
        let at = self.slot_of(stream);
        let slot = &mut self.slots[at];
        if slot.stream == stream {
            slot.stream = 0;
            self.in_flight -= 1;
        }
    }

    /// Gives the server's send window back in large steps.
    fn credit(&mut self, bytes: u32) {
        self.unacknowledged += bytes;
        if self.unacknowledged > frames::RECEIVE_WINDOW / 2 {
            frames::put_window_update(&mut self.output, self.unacknowledged);
            self.unacknowledged = 0;
        }
    }

    fn slot_of(&self, stream: u32) -> usize {
        (stream as usize >> 1) % self.slots.len()
    }
}
