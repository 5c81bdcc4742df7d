//! `envoy.service.ratelimit.v3.RateLimitRequest` of API 1.40, decoded without copying. Keys and
//! values are bytes: Envoy passes header bytes on that are no UTF-8, and lets the request through
//! if the limiter cannot read them.

use std::ops::Range;

use smallvec::SmallVec;

use crate::grpc::wire::{Fields, Malformed, Value, wrapped};

/// A request as it arrived.
#[derive(Debug, Default)]
pub struct RateLimitRequest<'a> {
    /// Field 1.
    pub domain: &'a [u8],
    /// Field 2.
    pub descriptors: SmallVec<[RateLimitDescriptor; 4]>,
    /// Field 3: hits of descriptors that do not say their own; 0 is unset, and then 1.
    pub hits_addend: u32,
    entries: SmallVec<[(&'a [u8], &'a [u8]); 6]>,
}

/// One descriptor (`envoy.extensions.common.ratelimit.v3.RateLimitDescriptor`).
#[derive(Clone, Debug, Default)]
pub struct RateLimitDescriptor {
    /// Field 2: a limit that the caller brings.
    pub limit: Option<RateLimitOverride>,
    /// Field 3: hits; 0 is a look, absent means the request's.
    pub hits_addend: Option<u64>,
    /// Field 4: the hits are given back.
    pub is_negative_hits: bool,
    entries: Range<u32>,
}

/// A limit that the caller brings (`RateLimitDescriptor.RateLimitOverride`), as it came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateLimitOverride {
    /// Field 1.
    pub requests_per_unit: u32,
    /// Field 2: a number of `envoy.type.v3.RateLimitUnit`, or none of it.
    pub unit: u64,
    /// Field 3: how many units; 0 is unset, and then 1.
    pub unit_multiplier: u32,
}

impl<'a> RateLimitRequest<'a> {
    /// Decodes a message into an empty request that stands already where it will be read; unknown
    /// fields are passed over.
    #[inline]
    pub fn fill(&mut self, message: &'a [u8]) -> Result<(), Malformed> {
        for field in Fields::new(message) {
            match field? {
                (1, Value::Bytes(domain)) => self.domain = domain,
                (2, Value::Bytes(descriptor)) => self.descriptor(descriptor)?,
                (3, Value::Varint(hits)) => self.hits_addend = hits as u32,
                _ => {}
            }
        }
        Ok(())
    }

    /// The entries of one of this request's descriptors.
    #[inline]
    pub fn entries(&self, descriptor: &RateLimitDescriptor) -> &[(&'a [u8], &'a [u8])] {
        &self.entries[descriptor.entries.start as usize..descriptor.entries.end as usize]
    }

    /// How many entries all descriptors have together.
    #[inline]
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// The units of a descriptor: its own, else the request's, else 1.
    #[inline]
    pub fn hits(&self, descriptor: &RateLimitDescriptor) -> u64 {
        descriptor.hits_addend.unwrap_or(u64::from(self.hits_addend.max(1)))
    }

    #[inline]
    fn descriptor(&mut self, message: &'a [u8]) -> Result<(), Malformed> {
        let start = self.entries.len() as u32;
        let mut descriptor = RateLimitDescriptor::default();
        for field in Fields::new(message) {
            match field? {
                (1, Value::Bytes(bytes)) => self.entries.push(entry(bytes)?),
                (2, Value::Bytes(bytes)) => {
                    let before = descriptor.limit.unwrap_or_default();
                    descriptor.limit = Some(brought(bytes, before)?);
                }
                (3, Value::Bytes(bytes)) => {
                    let before = descriptor.hits_addend.unwrap_or_default();
                    descriptor.hits_addend = Some(wrapped(bytes, before)?);
                }
                (4, Value::Varint(flag)) => descriptor.is_negative_hits = flag != 0,
                _ => {}
            }
        }
        descriptor.entries = start..self.entries.len() as u32;
        self.descriptors.push(descriptor);
        Ok(())
    }
}

#[inline]
fn entry(message: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let (mut key, mut value): (&[u8], &[u8]) = (&[], &[]);
    for field in Fields::new(message) {
        match field? {
            (1, Value::Bytes(bytes)) => key = bytes,
            (2, Value::Bytes(bytes)) => value = bytes,
            _ => {}
        }
    }
    Ok((key, value))
}

/// A field that comes twice is one message in pieces.
fn brought(message: &[u8], mut limit: RateLimitOverride) -> Result<RateLimitOverride, Malformed> {
    for field in Fields::new(message) {
        match field? {
            (1, Value::Varint(number)) => limit.requests_per_unit = number as u32,
            (2, Value::Varint(number)) => limit.unit = number,
            (3, Value::Bytes(bytes)) => {
                let before = u64::from(limit.unit_multiplier);
                limit.unit_multiplier = wrapped(bytes, before)? as u32;
            }
            _ => {}
        }
    }
    Ok(limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::wire::{put_bytes, put_message, put_number};
    use bytes::BytesMut;
    use proptest::prelude::*;

    fn decoded(message: &[u8]) -> Result<RateLimitRequest<'_>, Malformed> {
        let mut request = RateLimitRequest::default();
        request.fill(message).map(|()| request)
    }

    #[test]
    fn every_field_is_read() {
        let mut buffer = BytesMut::new();
        put_bytes(&mut buffer, 1, b"shop");
        put_message(&mut buffer, 2, |descriptor| {
            put_message(descriptor, 1, |entry| {
                put_bytes(entry, 1, b"tenant");
                put_bytes(entry, 2, b"\xff\xfe");
            });
            put_message(descriptor, 1, |entry| put_bytes(entry, 1, b"empty"));
            put_message(descriptor, 2, |limit| {
                put_number(limit, 1, 5);
                put_number(limit, 2, 7);
                put_message(limit, 3, |wrapper| put_number(wrapper, 1, 15));
            });
            put_message(descriptor, 3, |_| {});
            put_number(descriptor, 4, 1);
            put_number(descriptor, 15, 99);
        });
        put_message(&mut buffer, 2, |_| {});
        put_number(&mut buffer, 3, 3);
        let request = decoded(&buffer).unwrap();
        assert_eq!(request.domain, b"shop");
        let [first, second] = &request.descriptors[..] else { panic!("two descriptors") };
        let expected: &[(&[u8], &[u8])] = &[(b"tenant", b"\xff\xfe"), (b"empty", b"")];
        assert_eq!(request.entries(first), expected);
        let limit = RateLimitOverride { requests_per_unit: 5, unit: 7, unit_multiplier: 15 };
        assert_eq!((first.limit, first.is_negative_hits), (Some(limit), true));
        assert_eq!(request.hits(first), 0, "the descriptor's own 0 is a look");
        assert!(request.entries(second).is_empty());
        assert_eq!(request.hits(second), 3, "else the request's");
    }

    #[test]
    fn hits_of_zero_on_the_request_are_unset() {
        let request = decoded(b"\x0a\x01x\x12\x00\x18\x00").unwrap();
        assert_eq!(request.hits(&request.descriptors[0]), 1);
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(request) = decoded(&bytes) {
                for descriptor in &request.descriptors {
                    let _ = (request.entries(descriptor), request.hits(descriptor));
                }
            }
        }
    }
}
