//! Length-prefixed messages: built with their prefix in one buffer, taken apart without a copy.

use std::ops::{Deref, DerefMut};

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::status::{Code, Status};

/// Bytes before each message: the compression flag and the length, big-endian.
pub const PREFIX_LEN: usize = 5;

/// A message with its prefix, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message(Bytes);

impl Message {
    /// Copies an encoded message behind its prefix.
    pub fn new(encoded: &[u8]) -> Self {
        let mut builder = MessageBuilder::with_capacity(encoded.len());
        builder.extend_from_slice(encoded);
        builder.finish()
    }

    /// Prefix and message as they travel.
    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    pub(super) fn into_bytes(self) -> Bytes {
        self.0
    }
}

/// A buffer to encode a message into; the room for the prefix is already taken.
#[derive(Debug)]
pub struct MessageBuilder(BytesMut);

impl MessageBuilder {
    /// A builder for a message of about `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        let mut buffer = BytesMut::with_capacity(PREFIX_LEN + capacity);
        buffer.put_bytes(0, PREFIX_LEN);
        Self(buffer)
    }

    /// Closes the message: its prefix tells its length.
    pub fn finish(mut self) -> Message {
        let length = (self.0.len() - PREFIX_LEN) as u32;
        self.0[1..PREFIX_LEN].copy_from_slice(&length.to_be_bytes());
        Message(self.0.freeze())
    }
}

impl Deref for MessageBuilder {
    type Target = BytesMut;

    fn deref(&self) -> &BytesMut {
        &self.0
    }
}

impl DerefMut for MessageBuilder {
    fn deref_mut(&mut self) -> &mut BytesMut {
        &mut self.0
    }
}

/// Puts the one message of a unary request together from the chunks that it travelled in.
#[derive(Debug)]
pub(super) struct Assembler {
    chunk: Bytes,
    joined: BytesMut,
    max_message: usize,
    has_encoding: bool,
}

impl Assembler {
    /// `has_encoding`: the request names a message encoding other than `identity`.
    pub(super) fn new(max_message: usize, has_encoding: bool) -> Self {
        Self { chunk: Bytes::new(), joined: BytesMut::new(), max_message, has_encoding }
    }

    /// Takes the next chunk; fails as soon as the bytes so far cannot become one legal message.
    pub(super) fn push(&mut self, chunk: Bytes) -> Result<(), Status> {
        if self.chunk.is_empty() && self.joined.is_empty() {
            self.chunk = chunk;
        } else {
            if self.joined.is_empty() {
                let first = std::mem::take(&mut self.chunk);
                self.joined.extend_from_slice(&first);
            }
            self.joined.extend_from_slice(&chunk);
        }
        self.check_prefix().map(|_| ())
    }

    /// The message without its prefix, once the request has ended.
    pub(super) fn finish(self) -> Result<Bytes, Status> {
        let Some(length) = self.check_prefix()? else {
            return Err(Status::internal(if self.received().is_empty() {
                "the request has no message"
            } else {
                "the request ends inside a message's prefix"
            }));
        };
        let mut message = if self.joined.is_empty() { self.chunk } else { self.joined.freeze() };
        if message.len() - PREFIX_LEN < length {
            return Err(Status::internal("the request ends inside its message"));
        }
        message.advance(PREFIX_LEN);
        Ok(message)
    }

    /// The bytes so far.
    pub(super) fn received(&self) -> &[u8] {
        if self.joined.is_empty() { &self.chunk } else { &self.joined }
    }

    /// The length that the prefix tells, once it is there.
    fn check_prefix(&self) -> Result<Option<usize>, Status> {
        let received = self.received();
        let length = length_of(received, self.max_message, self.has_encoding)?;
        if length.is_some_and(|length| received.len() - PREFIX_LEN > length) {
            return Err(Status::internal("more than one message in a unary request"));
        }
        Ok(length)
    }
}

/// The length of the message that begins these bytes, once its prefix is there.
#[inline]
fn length_of(
    received: &[u8],
    max_message: usize,
    has_encoding: bool,
) -> Result<Option<usize>, Status> {
    let Some(prefix) = received.first_chunk::<PREFIX_LEN>() else { return Ok(None) };
    let [flag, length @ ..] = *prefix;
    let length = u32::from_be_bytes(length) as usize;
    match flag {
        0 => {}
        1 if has_encoding => return Err(Status::unknown_encoding()),
        1 => return Err(Status::internal("a compressed message without grpc-encoding")),
        _ => return Err(Status::internal("a message's compression flag is neither 0 nor 1")),
    }
    if length > max_message {
        let text = format!("a message of {length} bytes; the limit is {max_message}");
        return Err(Status::new(Code::ResourceExhausted, text));
    }
    Ok(Some(length))
}

/// Takes the messages of a stream apart, chunk by chunk. Holds at most one that is not whole yet,
/// and what came with it.
#[derive(Debug)]
pub(super) struct Splitter {
    received: BytesMut,
    max_message: usize,
    has_encoding: bool,
}

impl Splitter {
    pub(super) fn new(max_message: usize, has_encoding: bool) -> Self {
        Self { received: BytesMut::new(), max_message, has_encoding }
    }

    /// Takes the next chunk.
    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.received.extend_from_slice(chunk);
    }

    /// The next message that is whole, without its prefix; fails as soon as it cannot become one.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, Status> {
        match length_of(&self.received, self.max_message, self.has_encoding)? {
            Some(length) if self.received.len() - PREFIX_LEN >= length => {
                self.received.advance(PREFIX_LEN);
                Ok(Some(self.received.split_to(length).freeze()))
            }
            _ => Ok(None),
        }
    }

    /// True if the stream may end here: no message has begun.
    pub(super) fn is_empty(&self) -> bool {
        self.received.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assemble(chunks: &[&[u8]], has_encoding: bool) -> Result<Bytes, Status> {
        let mut assembler = Assembler::new(1000, has_encoding);
        for chunk in chunks {
            assembler.push(Bytes::copy_from_slice(chunk))?;
        }
        assembler.finish()
    }

    #[test]
    fn builder_writes_the_length() {
        assert_eq!(&Message::new(b"abc").as_bytes()[..], b"\0\0\0\0\x03abc");
        assert_eq!(&Message::new(b"").as_bytes()[..], b"\0\0\0\0\0");
    }

    #[test]
    fn message_in_one_chunk_is_not_copied() {
        let chunk = Bytes::from_static(b"\0\0\0\0\x03abc");
        let mut assembler = Assembler::new(10, false);
        assembler.push(chunk.clone()).unwrap();
        let message = assembler.finish().unwrap();
        assert_eq!(message, "abc");
        assert_eq!(message.as_ptr(), chunk[PREFIX_LEN..].as_ptr());
    }

    #[test]
    fn message_split_anywhere_is_joined() {
        let whole = b"\0\0\0\0\x03abc";
        for cut in 0..=whole.len() {
            let (a, b) = whole.split_at(cut);
            assert_eq!(assemble(&[a, b], false).unwrap(), "abc", "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = whole.chunks(1).collect();
        assert_eq!(assemble(&bytes, false).unwrap(), "abc");
    }

    #[test]
    fn messages_of_a_stream_may_be_split_anywhere() {
        let whole = b"\0\0\0\0\x03abc\0\0\0\0\0\0\0\0\0\x01d";
        for size in 1..whole.len() {
            let mut splitter = Splitter::new(10, false);
            let mut found = Vec::new();
            for chunk in whole.chunks(size) {
                assert!(found.len() < 3);
                splitter.push(chunk);
                while let Some(message) = splitter.next().unwrap() {
                    found.push(message);
                }
            }
            assert_eq!(found, ["abc", "", "d"]);
            assert!(splitter.is_empty());
        }
        let mut splitter = Splitter::new(10, false);
        splitter.push(b"\0\0\0\0\x0b");
        assert_eq!(splitter.next().unwrap_err().code, Code::ResourceExhausted);
    }

    #[test]
    fn none_two_and_truncated_messages_are_internal() {
        for chunks in [
            &[][..],
            &[&b""[..]],
            &[b"\0\0\0"],
            &[b"\0\0\0\0\x03ab"],
            &[b"\0\0\0\0\x01a\0\0\0\0\x01b"],
            &[b"\0\0\0\0\x01a", b"\0"],
        ] {
            assert_eq!(assemble(chunks, false).unwrap_err().code, Code::Internal, "{chunks:?}");
        }
    }

    #[test]
    fn too_long_is_known_from_the_prefix_alone() {
        let mut assembler = Assembler::new(1000, false);
        let refused = assembler.push(Bytes::from_static(b"\0\0\0\x03\xe9")).unwrap_err();
        assert_eq!(refused.code, Code::ResourceExhausted);
        let mut assembler = Assembler::new(1000, false);
        assembler.push(Bytes::from_static(b"\0\0\0\x03\xe8")).unwrap();
    }

    #[test]
    fn compression_flag_needs_an_encoding_we_know() {
        let compressed: &[&[u8]] = &[b"\x01\0\0\0\x01a"];
        assert_eq!(assemble(compressed, false).unwrap_err().code, Code::Internal);
        let unknown = assemble(compressed, true).unwrap_err();
        assert_eq!(unknown.code, Code::Unimplemented);
        assert!(unknown.names_encodings);
        assert_eq!(assemble(&[b"\x02\0\0\0\x01a"], true).unwrap_err().code, Code::Internal);
        assert_eq!(assemble(&[b"\0\0\0\0\x01a"], true).unwrap(), "a");
    }
}
