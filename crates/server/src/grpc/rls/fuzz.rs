//! Whatever the bytes are, a message is read or refused, and what is read lies within it.

use super::request::RateLimitRequest;
use crate::fuzz::run;
use crate::grpc::reflection;

#[test]
fn messages() {
    run("messages", |input| {
        let mut request = RateLimitRequest::default();
        if request.fill(input).is_ok() {
            let mut bytes = request.domain.len();
            for descriptor in &request.descriptors {
                for (key, value) in request.entries(descriptor) {
                    bytes += key.len() + value.len();
                }
                let hits = request.hits(descriptor);
                assert!(
                    descriptor.hits_addend.is_some() || (1..=u64::from(u32::MAX)).contains(&hits)
                );
            }
            assert!(bytes <= input.len());
        }
        if let Ok(answer) = reflection::answer(input) {
            // The longest files together, and the question.
            assert!(answer.as_bytes().len() < 16_384 + input.len());
        }
    });
}
