//! The doors over real sockets: what goes in, what comes out.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says so by failing")]

mod access;
mod addresses;
mod door_token;
mod explain;
mod forward_auth;
mod grpc_client;
mod health;
mod hot;
mod http_answers;
mod http_client;
mod http_questions;
mod keys;
mod lifecycle;
mod node;
mod profiles;
mod quotas;
mod rls_answers;
mod rls_overrides;
mod rls_requests;
mod shadow;
mod store_down;
mod together;
mod traces;
