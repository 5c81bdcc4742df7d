//! However bytes are cut into chunks, the same messages come out of them, or the same failure.

use bytes::Bytes;

use super::message::{Assembler, PREFIX_LEN, Splitter};
use super::status::Code;
use crate::fuzz::run;

const MOST: usize = 4096;

#[test]
fn frames() {
    run("frames", |input| {
        for has_encoding in [false, true] {
            let whole = assembled(input, input.len().max(1), has_encoding);
            for size in [1, 2, 7] {
                let cut = assembled(input, size, has_encoding);
                // A failure may be told at an earlier byte, and then for another reason.
                assert_eq!(whole.is_ok(), cut.is_ok(), "chunks of {size}");
                assert_eq!(whole.as_ref().ok(), cut.as_ref().ok());
                assert_eq!(split(input, size, has_encoding), split(input, MOST, has_encoding));
            }
            if let Ok(message) = whole {
                assert_eq!(message, input[PREFIX_LEN..]);
                assert_eq!(split(input, 3, has_encoding), (vec![message], None));
            }
        }
    });
}

fn assembled(input: &[u8], size: usize, has_encoding: bool) -> Result<Bytes, Code> {
    let mut assembler = Assembler::new(MOST, has_encoding);
    for chunk in input.chunks(size) {
        assembler.push(Bytes::copy_from_slice(chunk)).map_err(|status| status.code)?;
    }
    assembler.finish().map_err(|status| status.code)
}

fn split(input: &[u8], size: usize, has_encoding: bool) -> (Vec<Bytes>, Option<Code>) {
    let mut splitter = Splitter::new(MOST, has_encoding);
    let mut messages = Vec::new();
    for chunk in input.chunks(size) {
        splitter.push(chunk);
        loop {
            match splitter.next() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(status) => return (messages, Some(status.code)),
            }
        }
    }
    (messages, None)
}
