//! The wire format (RESP2): commands out, answers in.

/// One answer, borrowed from the receive buffer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply<'a> {
    Simple(&'a [u8]),
    Error(&'a [u8]),
    Integer(i64),
    Bulk(Option<&'a [u8]>),
    Array(Vec<Reply<'a>>),
}

/// Not this protocol: the other end is no Redis, or the stream is out of step.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotResp;

/// No answer to us is longer: a call has at most a few hundred records of 25 bytes.
const LONGEST_BULK: usize = 1 << 20;
const DEEPEST: u8 = 4;
/// A Cluster may say of each slot for itself who serves it.
const MOST_ITEMS: i64 = super::slots::SLOTS as i64;

/// The first answer in `bytes` and the bytes it took; `None` until it is there in full.
#[inline]
pub(super) fn parse(bytes: &[u8]) -> Result<Option<(Reply<'_>, usize)>, NotResp> {
    parse_nested(bytes, 0)
}

fn parse_nested(bytes: &[u8], depth: u8) -> Result<Option<(Reply<'_>, usize)>, NotResp> {
    let Some((kind, rest)) = bytes.split_first() else { return Ok(None) };
    let Some(line_end) = rest.windows(2).position(|pair| pair == b"\r\n") else {
        return if rest.len() > LONGEST_BULK { Err(NotResp) } else { Ok(None) };
    };
    let (line, used) = (&rest[..line_end], line_end + 3);
    match kind {
        b'+' => Ok(Some((Reply::Simple(line), used))),
        b'-' => Ok(Some((Reply::Error(line), used))),
        b':' => Ok(Some((Reply::Integer(integer(line)?), used))),
        b'$' => bulk(bytes, integer(line)?, used),
        b'*' if depth < DEEPEST => array(bytes, integer(line)?, used, depth),
        _ => Err(NotResp),
    }
}

#[inline]
fn bulk(bytes: &[u8], length: i64, start: usize) -> Result<Option<(Reply<'_>, usize)>, NotResp> {
    if length == -1 {
        return Ok(Some((Reply::Bulk(None), start)));
    }
    let length = usize::try_from(length).ok().filter(|length| *length <= LONGEST_BULK);
    let end = start + length.ok_or(NotResp)?;
    match bytes.get(end..end + 2) {
        None => Ok(None),
        Some(b"\r\n") => Ok(Some((Reply::Bulk(Some(&bytes[start..end])), end + 2))),
        Some(_) => Err(NotResp),
    }
}

fn array(
    bytes: &[u8],
    count: i64,
    mut used: usize,
    depth: u8,
) -> Result<Option<(Reply<'_>, usize)>, NotResp> {
    if !(-1..=MOST_ITEMS).contains(&count) {
        return Err(NotResp);
    }
    let mut items = Vec::new();
    for _ in 0..count {
        let Some((item, length)) = parse_nested(&bytes[used..], depth + 1)? else {
            return Ok(None);
        };
        items.push(item);
        used += length;
    }
    Ok(Some((Reply::Array(items), used)))
}

fn integer(line: &[u8]) -> Result<i64, NotResp> {
    std::str::from_utf8(line).ok().and_then(|text| text.parse().ok()).ok_or(NotResp)
}

/// Appends a number in decimal.
#[inline]
pub(super) fn append_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends the head of a command of so many arguments, its name included.
#[inline]
pub(super) fn append_head(out: &mut Vec<u8>, arguments: usize) {
    out.push(b'*');
    append_number(out, arguments as u64);
    out.extend_from_slice(b"\r\n");
}

/// Appends one argument.
#[inline]
pub(super) fn append_bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'$');
    append_number(out, bytes.len() as u64);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Appends a whole command.
pub(super) fn append_command(out: &mut Vec<u8>, arguments: &[&[u8]]) {
    append_head(out, arguments.len());
    for argument in arguments {
        append_bulk(out, argument);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_kind_of_answer_is_read_and_its_length_said() {
        let whole = b"*3\r\n$3\r\na\r\n\r\n:-5\r\n*-1\r\n-ERR x\r\n";
        let (reply, used) = parse(whole).unwrap().unwrap();
        let items = vec![Reply::Bulk(Some(b"a\r\n")), Reply::Integer(-5), Reply::Array(vec![])];
        assert_eq!(reply, Reply::Array(items));
        assert_eq!(parse(&whole[used..]), Ok(Some((Reply::Error(b"ERR x"), 8))));
        assert_eq!(parse(b"$-1\r\n"), Ok(Some((Reply::Bulk(None), 5))));
        assert_eq!(parse(b"+OK\r\n+"), Ok(Some((Reply::Simple(b"OK"), 5))));
        for part in 0..used {
            assert_eq!(parse(&whole[..part]), Ok(None), "{part}");
        }
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for bytes in
            [&b"HTTP/1.1 400\r\n"[..], b"$x\r\n", b"$1\r\nabc", b"$99999999\r\n", b"*-2\r\n"]
        {
            assert_eq!(parse(bytes), Err(NotResp), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_command_is_its_arguments_with_their_lengths() {
        let mut out = Vec::new();
        append_command(&mut out, &[b"DEL", b"a\r\n", b""]);
        assert_eq!(out, b"*3\r\n$3\r\nDEL\r\n$3\r\na\r\n\r\n$0\r\n\r\n");
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn numbers_are_printed_as_decimals(number: u64) {
            let mut out = Vec::new();
            append_number(&mut out, number);
            prop_assert_eq!(out, number.to_string().into_bytes());
        }
    }
}
