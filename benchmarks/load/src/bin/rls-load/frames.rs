//! HTTP/2 frames as bytes: the few that a client sends and meets.

pub const HEAD_LEN: usize = 9;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;
pub const PADDED: u8 = 8;
pub const PRIORITY: u8 = 32;

pub const DEFAULT_WINDOW: u32 = 65_535;
/// What we let the server send on the connection before it hears from us again.
pub const RECEIVE_WINDOW: u32 = 1 << 30;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const ENABLE_PUSH: u16 = 2;
pub const MAX_CONCURRENT_STREAMS: u16 = 3;
pub const INITIAL_WINDOW_SIZE: u16 = 4;

/// A frame's head.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    pub length: usize,
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
}

impl Head {
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let head = bytes.first_chunk::<HEAD_LEN>()?;
        Some(Self {
            length: u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize,
            kind: head[3],
            flags: head[4],
            stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff,
        })
    }
}

pub fn put_head(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    out.extend_from_slice(&(length as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
}

/// What opens a connection: preface, settings, and a wide receive window.
pub fn put_opening(out: &mut Vec<u8>) {
    out.extend_from_slice(PREFACE);
    put_head(out, 6, SETTINGS, 0, 0);
    out.extend_from_slice(&ENABLE_PUSH.to_be_bytes());
    out.extend_from_slice(&0_u32.to_be_bytes());
    put_window_update(out, RECEIVE_WINDOW - DEFAULT_WINDOW);
}

pub fn put_window_update(out: &mut Vec<u8>, increment: u32) {
    put_head(out, 4, WINDOW_UPDATE, 0, 0);
    out.extend_from_slice(&increment.to_be_bytes());
}

pub fn put_settings_ack(out: &mut Vec<u8>) {
    put_head(out, 0, SETTINGS, ACK, 0);
}

pub fn put_ping_ack(out: &mut Vec<u8>, payload: &[u8]) {
    put_head(out, payload.len(), PING, ACK, 0);
    out.extend_from_slice(payload);
}

/// The settings in a SETTINGS frame.
pub fn settings(payload: &[u8]) -> impl Iterator<Item = (u16, u32)> {
    payload.chunks_exact(6).map(|entry| {
        let id = u16::from_be_bytes([entry[0], entry[1]]);
        (id, u32::from_be_bytes([entry[2], entry[3], entry[4], entry[5]]))
    })
}
