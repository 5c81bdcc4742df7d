//! Keeps this program on one core.

/// Runs on that core alone from now on.
pub fn pin(core: usize) -> Result<(), String> {
    let mut cores = rustix::thread::CpuSet::new();
    cores.set(core);
    rustix::thread::sched_setaffinity(None, &cores)
        .map_err(|error| format!("cannot run on core {core}: {error}"))
}
