//! The HTTP door: decisions as JSON, answers to proxies, probes, metrics.

mod answer;
mod body;
mod check;
mod connection;
mod decisions;
mod document;
mod forward_auth;
#[cfg(test)]
mod fuzz;
mod host;
mod hot;
mod idle;
mod insiders;
mod metrics;
mod openapi;
#[cfg(test)]
mod panics;
mod probes;
mod question;
mod reset;
mod router;
mod suggest;

pub use connection::{HttpDoor, HttpStats};
