//! Limits that are decided at the node (`consistency: local`): nobody is denied whom the store
//! would admit, and the store admits at most a hundredth of the limit less than all nodes do.
//!
//! Each node mirrors the counters that it is asked for, admits from the mirror as long as it holds
//! few enough units unsettled, and settles with the store every [`tend::EVERY`], or sooner when half
//! of those units are used. A settling names its windows and always lands. With `consistency: auto`
//! that begins when a counter runs hot at a worker, and ends when it has been cool for some time.

mod decide;
mod heat;
mod mirror;
pub(super) mod nodes;
mod settle;
mod table;
mod tend;
mod told;

pub(super) use decide::{Standing, decide, stand};
pub(super) use heat::Heat;
pub(super) use table::{Name, Table};
pub(super) use tend::tend;
