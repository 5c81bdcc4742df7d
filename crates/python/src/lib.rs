//! The native module of the Python package. It translates: bytes, integers and strings in, frozen
//! objects out. What is decided is decided in the crates below.

mod asked;
mod checks;
mod clock;
mod decision;
mod descriptors;
mod engine;
mod errors;
mod journal;
mod limit;
mod options;
mod parts;
mod policy;
mod regex;
mod report;
mod rules;
mod server;
mod state;
mod store;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The native half of Tidegate.
#[pyo3::pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    use crate::checks::{check_certificates, check_doors, check_store};
    #[pymodule_export]
    use crate::decision::Decision;
    #[pymodule_export]
    use crate::engine::Engine;
    #[pymodule_export]
    use crate::journal::{close_journal, next_event, open_journal};
    #[pymodule_export]
    use crate::limit::Limit;
    #[pymodule_export]
    use crate::options::ServiceOptions;
    #[pymodule_export]
    use crate::policy::Policy;
    #[pymodule_export]
    use crate::regex::check_regex;
    #[pymodule_export]
    use crate::report::LimitReport;
    #[pymodule_export]
    use crate::server::Server;
    #[pymodule_export]
    use crate::state::StateTaken;
}
