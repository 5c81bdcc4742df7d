//! Limits that are decided at the node (`consistency: local` and its kin): nobody is denied whom
//! the store would admit, and the store admits at most a hundredth of the limit less than all nodes
//! do.
//!
//! Each node mirrors the counters that a worker is asked for more than some 4 times a second; the
//! others it asks the store for, as if they were exact. It admits from the mirror as long as it holds
//! few enough units unsettled, and settles with the store every [`tend::EVERY`], or sooner when half
//! of those units are used; who finds them all used asks the store. A settling names its windows and
//! always lands. With `consistency: auto` that begins at some thousand a second, and ends when the
//! counter has been cool for some time. With `sampled: K` a node holds up to 2 K units, however many
//! nodes there are, and settles once it has K, or has heard nothing for half a second.

mod ahead;
mod decide;
mod heat;
mod late;
mod mirror;
pub(super) mod nodes;
mod settle;
mod table;
mod taken;
mod tend;
mod told;

pub(super) use decide::{Standing, concerns, decide, stand};
pub(super) use heat::Heat;
pub(super) use settle::{Due, is_settled, settle_all};
pub(super) use table::{Name, Table};
pub(super) use tend::tend;
