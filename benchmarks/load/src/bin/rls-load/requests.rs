//! Requests built once: for each key the bytes of HEADERS and DATA, stream id left open.

use tidegate_load::template::fill;

use crate::frames::{DATA, END_HEADERS, END_STREAM, HEAD_LEN, HEADERS, put_head};

const PATH: &[u8] = b"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// Which request to make.
#[derive(Clone, Debug)]
pub struct Shape {
    pub domain: String,
    /// `key=value,key=value`, descriptors divided by `;`. In values `{i}` is the key's number,
    /// `{i%N}` that modulo N.
    pub entries: String,
    pub keys: usize,
    pub hits: u32,
    /// Headers beside those of gRPC, as `name:value,name:value`.
    pub headers: String,
}

/// All requests, ready to be copied out.
#[derive(Debug)]
pub struct Requests {
    /// Header block of a connection's first request: puts its fields into the dynamic table.
    opening_block: Vec<u8>,
    /// Header block of each later one: indexes only.
    block_len: usize,
    bytes: Vec<u8>,
    /// Where each request ends in `bytes`.
    ends: Vec<usize>,
    messages: Vec<Vec<u8>>,
}

impl Requests {
    pub fn build(shape: &Shape, authority: &str) -> Result<Self, String> {
        let (opening_block, block) = blocks(authority, &shape.headers)?;
        let mut requests = Self {
            opening_block,
            block_len: block.len(),
            bytes: Vec::new(),
            ends: Vec::with_capacity(shape.keys),
            messages: Vec::with_capacity(shape.keys),
        };
        for index in 0..shape.keys.max(1) {
            let message = prefixed(&encode(shape, index)?);
            put_request(&mut requests.bytes, &block, &message);
            requests.ends.push(requests.bytes.len());
            requests.messages.push(message);
        }
        Ok(requests)
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of DATA that the request takes from the windows.
    pub fn data_len(&self, index: usize) -> u32 {
        self.messages[index].len() as u32
    }

    /// Appends a connection's first request.
    pub fn put_first(&self, out: &mut Vec<u8>, index: usize, stream: u32) {
        let start = out.len();
        put_request(out, &self.opening_block, &self.messages[index]);
        name_stream(&mut out[start..], self.opening_block.len(), stream);
    }

    /// Appends a later request.
    pub fn put(&self, out: &mut Vec<u8>, index: usize, stream: u32) {
        let from = if index == 0 { 0 } else { self.ends[index - 1] };
        let start = out.len();
        out.extend_from_slice(&self.bytes[from..self.ends[index]]);
        name_stream(&mut out[start..], self.block_len, stream);
    }
}

fn put_request(out: &mut Vec<u8>, block: &[u8], message: &[u8]) {
    put_head(out, block.len(), HEADERS, END_HEADERS, 0);
    out.extend_from_slice(block);
    put_head(out, message.len(), DATA, END_STREAM, 0);
    out.extend_from_slice(message);
}

fn name_stream(request: &mut [u8], block_len: usize, stream: u32) {
    let id = stream.to_be_bytes();
    request[5..HEAD_LEN].copy_from_slice(&id);
    let data = HEAD_LEN + block_len;
    request[data + 5..data + HEAD_LEN].copy_from_slice(&id);
}

/// The two header blocks: one that fills the dynamic table, one that uses it, as Envoy's does.
fn blocks(authority: &str, extra: &str) -> Result<(Vec<u8>, Vec<u8>), String> {
    // Static table: `:method: POST` is 3, `:scheme: http` is 6; names `:path` 4, `:authority` 1,
    // `content-type` 31.
    let mut first = vec![0x83, 0x86];
    let mut fields = 0;
    for (name, value) in [(4, PATH), (1, authority.as_bytes()), (31, b"application/grpc")] {
        first.push(0x40 | name);
        put_string(&mut first, value)?;
        fields += 1;
    }
    let mut named = vec![("te".to_owned(), "trailers".to_owned())];
    for header in extra.split(',').filter(|header| !header.is_empty()) {
        let (name, value) =
            header.split_once(':').ok_or_else(|| format!("{header:?} is not name:value"))?;
        named.push((name.trim().to_lowercase(), value.trim().to_owned()));
    }
    for (name, value) in named {
        first.push(0x40);
        put_string(&mut first, name.as_bytes())?;
        put_string(&mut first, value.as_bytes())?;
        fields += 1;
    }
    // The newest entry of the dynamic table has index 62.
    let mut later = vec![0x83, 0x86];
    later.extend((0..fields).map(|age| 0x80 | (62 + fields - 1 - age)));
    Ok((first, later))
}

fn put_string(out: &mut Vec<u8>, text: &[u8]) -> Result<(), String> {
    if text.len() >= 127 {
        return Err("header names and values are shorter than 127 bytes here".to_owned());
    }
    out.push(text.len() as u8);
    out.extend_from_slice(text);
    Ok(())
}

fn prefixed(message: &[u8]) -> Vec<u8> {
    let mut framed = vec![0];
    framed.extend_from_slice(&(message.len() as u32).to_be_bytes());
    framed.extend_from_slice(message);
    framed
}

/// A `RateLimitRequest`.
fn encode(shape: &Shape, index: usize) -> Result<Vec<u8>, String> {
    let mut message = Vec::new();
    put_field(&mut message, 1, shape.domain.as_bytes());
    for entries in shape.entries.split(';') {
        let mut descriptor = Vec::new();
        for pair in entries.split(',') {
            let (key, value) =
                pair.split_once('=').ok_or_else(|| format!("{pair:?} is not key=value"))?;
            let mut entry = Vec::new();
            put_field(&mut entry, 1, key.as_bytes());
            put_field(&mut entry, 2, fill(value, index)?.as_bytes());
            put_field(&mut descriptor, 1, &entry);
        }
        put_field(&mut message, 2, &descriptor);
    }
    if shape.hits != 0 {
        message.push(3 << 3);
        put_varint(&mut message, u64::from(shape.hits));
    }
    Ok(message)
}

/// A template with its placeholders filled in.
fn put_field(out: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    out.push(number << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_blocks_say_the_same() {
        let (first, later) = blocks("127.0.0.1:8081", "grpc-timeout:20m").unwrap();
        let mut decoder = fluke_hpack::Decoder::new();
        let said = decoder.decode(&first).unwrap();
        assert_eq!(said, decoder.decode(&later).unwrap());
        assert_eq!(said.len(), 7);
        assert!(said.contains(&(b"grpc-timeout".to_vec(), b"20m".to_vec())));
    }

    #[test]
    fn request_is_two_frames_of_one_stream() {
        let shape = Shape {
            domain: "bench".to_owned(),
            entries: "tenant=t{i%2};tenant=t{i%2},api_key=k{i}".to_owned(),
            keys: 3,
            hits: 0,
            headers: String::new(),
        };
        let requests = Requests::build(&shape, "localhost").unwrap();
        let mut out = Vec::new();
        requests.put(&mut out, 2, 5);
        let headers = crate::frames::Head::parse(&out).unwrap();
        let data = crate::frames::Head::parse(&out[HEAD_LEN + headers.length..]).unwrap();
        assert_eq!((headers.stream, data.stream), (5, 5));
        assert!(out.ends_with(b"\x07api_key\x12\x02k2"));
    }
}
