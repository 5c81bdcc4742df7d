//! `grpc.reflection.v1` and `v1alpha`: which services there are and what their messages hold, so
//! that `grpcurl` and its like can list, describe and call them.

mod answer;
mod catalogue;

pub use answer::answer;
