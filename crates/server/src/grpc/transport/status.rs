//! How a call ended: code, text, and the text's form on the wire.

use std::borrow::Cow;

/// The status codes of gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are the protocol's own")]
pub enum Code {
    Ok = 0,
    Cancelled = 1,
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
}

impl Code {
    /// The protocol's name of the code.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Cancelled => "CANCELLED",
            Self::Unknown => "UNKNOWN",
            Self::InvalidArgument => "INVALID_ARGUMENT",
            Self::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Self::NotFound => "NOT_FOUND",
            Self::AlreadyExists => "ALREADY_EXISTS",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Self::FailedPrecondition => "FAILED_PRECONDITION",
            Self::Aborted => "ABORTED",
            Self::OutOfRange => "OUT_OF_RANGE",
            Self::Unimplemented => "UNIMPLEMENTED",
            Self::Internal => "INTERNAL",
            Self::Unavailable => "UNAVAILABLE",
            Self::DataLoss => "DATA_LOSS",
            Self::Unauthenticated => "UNAUTHENTICATED",
        }
    }

    /// The code as `grpc-status` carries it.
    pub(super) fn digits(self) -> &'static str {
        const DIGITS: [&str; 17] = [
            "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15",
            "16",
        ];
        DIGITS[self as usize]
    }
}

/// A call's failure: what went wrong and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The code that programs read.
    pub code: Code,
    /// The text that people read; at most its first 1,024 bytes are sent.
    pub message: Cow<'static, str>,
    /// Whether the answer says which message encodings are accepted.
    pub(super) names_encodings: bool,
}

impl Status {
    /// A failure with a code and a text.
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), names_encodings: false }
    }

    /// The caller's request cannot be right.
    pub fn invalid_argument(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    /// The protocol was broken, or we have a bug.
    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::Internal, message)
    }

    /// No such service, method or encoding.
    pub fn unimplemented(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::Unimplemented, message)
    }

    /// The message is compressed in a way that is not ours; the answer names what is.
    pub(super) fn unknown_encoding() -> Self {
        Self {
            names_encodings: true,
            ..Self::unimplemented("the message's grpc-encoding is unknown; send it uncompressed")
        }
    }

    /// Try another node, or later.
    pub fn unavailable(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::Unavailable, message)
    }

    /// The caller's time ran out.
    pub fn deadline_exceeded() -> Self {
        Self::new(Code::DeadlineExceeded, "the time that grpc-timeout grants is over")
    }
}

const LONGEST_TEXT: usize = 1024;

/// Percent-encodes a text: everything but printable ASCII, and the percent sign itself.
pub(super) fn encode_text(text: &str) -> Vec<u8> {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut end = text.len().min(LONGEST_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let text = &text[..end];
    let mut encoded = Vec::with_capacity(text.len());
    for byte in text.bytes() {
        if (b' '..=b'~').contains(&byte) && byte != b'%' {
            encoded.push(byte);
        } else {
            let high = HEX[usize::from(byte >> 4)];
            encoded.extend_from_slice(&[b'%', high, HEX[usize::from(byte & 15)]]);
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_percent_encoded() {
        assert_eq!(encode_text("plain, with = signs"), b"plain, with = signs");
        assert_eq!(encode_text("100%\r\n"), b"100%25%0D%0A");
        assert_eq!(encode_text("Größe"), b"Gr%C3%B6%C3%9Fe");
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        let text = "é".repeat(1000);
        assert_eq!(encode_text(&text).len(), 512 * 6);
    }

    #[test]
    fn codes_have_their_numbers() {
        assert_eq!(Code::Ok.digits(), "0");
        assert_eq!(Code::ResourceExhausted.digits(), "8");
        assert_eq!(Code::Unauthenticated.digits(), "16");
    }
}
