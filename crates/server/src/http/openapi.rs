//! `GET /openapi.json`: what this API is, for programs.

use hyper::StatusCode;

use super::answer::{Answered, json};

/// The document, in version 3.1 of its language. Tests hold the server to it.
const DOCUMENT: &str = include_str!("openapi.json");

/// Answers with it.
pub fn document() -> Answered {
    json(StatusCode::OK, DOCUMENT.as_bytes().to_vec())
}
