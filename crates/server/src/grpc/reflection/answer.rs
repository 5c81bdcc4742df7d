//! One question of the reflection stream, answered. Both versions of the protocol have the same
//! messages under other names.

use bytes::BytesMut;

use super::catalogue::Catalogue;
use crate::grpc::transport::{Code, Message, MessageBuilder, Status};
use crate::grpc::wire::{Fields, Value, put_bytes, put_message, put_number};

/// Answers a `ServerReflectionRequest`. What is not known is told within the stream, which goes on.
///
/// # Errors
/// The question is no such message.
pub fn answer(question: &[u8]) -> Result<Message, Status> {
    let malformed = |_| Status::internal("the message is no ServerReflectionRequest");
    let (mut host, mut asked): (&[u8], Option<(u32, &[u8])>) = (b"", None);
    for field in Fields::new(question) {
        match field.map_err(malformed)? {
            (1, Value::Bytes(name)) => host = name,
            // Of a choice the last one counts.
            (number @ 3..=7, Value::Bytes(value)) => asked = Some((number, value)),
            _ => {}
        }
    }
    let mut out = MessageBuilder::with_capacity(256);
    put_bytes(&mut out, 1, host);
    put_message(&mut out, 2, |original| original.extend_from_slice(question));
    let catalogue = Catalogue::get();
    match asked {
        Some((3, path)) => put_files(&mut out, catalogue, std::str::from_utf8(path).ok()),
        Some((4, name)) => {
            let name = std::str::from_utf8(name).ok();
            put_files(&mut out, catalogue, name.and_then(|name| catalogue.home(name)));
        }
        // No message here has extensions.
        Some((5, _)) => put_error(&mut out, Code::NotFound, "there are no extensions"),
        Some((6, name)) => match std::str::from_utf8(name).ok().and_then(|it| catalogue.home(it)) {
            Some(_) => put_message(&mut out, 5, |numbers| put_bytes(numbers, 1, name)),
            None => put_error(&mut out, Code::NotFound, "no such message"),
        },
        Some(_) => put_message(&mut out, 6, |list| {
            for service in &catalogue.services {
                put_message(list, 1, |one| put_bytes(one, 1, service.as_bytes()));
            }
        }),
        None => put_error(&mut out, Code::InvalidArgument, "nothing is asked"),
    }
    Ok(out.finish())
}

fn put_files(out: &mut BytesMut, catalogue: &Catalogue, path: Option<&str>) {
    let Some(files) = path.and_then(|path| catalogue.with_imports(path)) else {
        return put_error(out, Code::NotFound, "no such file or symbol");
    };
    put_message(out, 4, |response| {
        for file in files {
            put_message(response, 1, |bytes| bytes.extend_from_slice(file.bytes));
        }
    });
}

fn put_error(out: &mut BytesMut, code: Code, text: &str) {
    put_message(out, 7, |error| {
        put_number(error, 1, code as u64);
        put_bytes(error, 2, text.as_bytes());
    });
}
