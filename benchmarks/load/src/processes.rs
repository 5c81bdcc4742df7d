//! CPU time of processes, from /proc.

use std::fs;

/// Reads user and system time of watched processes, and of this one as `load`.
#[derive(Debug)]
pub struct Processes(Vec<(String, String)>);

impl Processes {
    /// `watch`: `name=pid,name=pid`.
    pub fn parse(watch: &str) -> Result<Self, String> {
        let mut found = vec![("load".to_owned(), "self".to_owned())];
        for item in watch.split(',').filter(|item| !item.is_empty()) {
            let (name, pid) =
                item.split_once('=').ok_or_else(|| format!("--watch {item:?} is not name=pid"))?;
            found.push((name.to_owned(), pid.to_owned()));
        }
        Ok(Self(found))
    }

    /// Seconds of CPU that each process has used so far.
    pub fn used(&self) -> Result<Vec<f64>, String> {
        self.0.iter().map(|(_, pid)| used(pid)).collect()
    }

    /// Bytes of memory that the process of a name holds.
    pub fn resident(&self, name: &str) -> Result<u64, String> {
        let found = self.0.iter().find(|(known, _)| known == name);
        let (_, pid) = found.ok_or_else(|| format!("--watch names no {name}=PID"))?;
        let path = format!("/proc/{pid}/statm");
        let statm = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
        Ok(pages * rustix::param::page_size() as u64)
    }

    /// The seconds used between two readings, by name.
    pub fn between(&self, before: &[f64], after: &[f64]) -> Vec<(String, f64)> {
        let used = before.iter().zip(after).map(|(before, after)| after - before);
        self.0.iter().map(|(name, _)| name.clone()).zip(used).collect()
    }
}

fn used(pid: &str) -> Result<f64, String> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    // The second field is the name in brackets and may hold anything; utime and stime are the
    // 14th and 15th.
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let ticks: f64 =
        fields.split(' ').skip(11).take(2).map(|field| field.parse::<f64>().unwrap_or(0.0)).sum();
    Ok(ticks / rustix::param::clock_ticks_per_second() as f64)
}
