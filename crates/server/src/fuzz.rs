//! Mutated inputs for the tests that feed parsers: drawn from `fuzz/corpus`, for as long as
//! `FUZZ_SECONDS` says. What makes a check panic is kept in `fuzz/found`.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

/// Inputs do not grow beyond this, in bytes.
const LONGEST: usize = 1 << 16;
/// Bytes on which parsers turn.
const TELLING: &[u8] = b"\x00\x01\x05\x0a\x12\x1a\x7f\x80\xff{}[]\",:\\-09eE.";

/// Checks every input of the corpus, then mutations of them until time is over.
pub fn run(target: &str, mut check: impl FnMut(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let corpus = corpus(&folder.join("corpus").join(target));
    let seconds = std::env::var("FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let until = Instant::now() + Duration::from_secs(seconds.unwrap_or(1));
    let mut chance = Chance(RandomState::new().hash_one(target) | 1);
    let mut checked = |input: &[u8]| {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(input))) {
            let place = keep(&folder.join("found"), target, input);
            eprintln!("this input fails: {}", place.display());
            resume_unwind(panic);
        }
    };
    for input in &corpus {
        checked(input);
    }
    let mut count = 0_u64;
    while !count.is_multiple_of(64) || Instant::now() < until {
        let mut input = corpus[chance.below(corpus.len())].clone();
        for _ in 0..=chance.below(6) {
            mutate(&mut input, &corpus, &mut chance);
        }
        input.truncate(LONGEST);
        checked(&input);
        count += 1;
    }
    println!("{target}: {count} mutations of {} inputs", corpus.len());
}

fn corpus(folder: &Path) -> Vec<Vec<u8>> {
    let files = fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} holds nothing", folder.display());
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

fn keep(folder: &Path, target: &str, input: &[u8]) -> PathBuf {
    let place = folder.join(format!("{target}-{:016x}", RandomState::new().hash_one(input)));
    fs::create_dir_all(folder).and_then(|()| fs::write(&place, input)).unwrap();
    place
}

/// Xorshift: no input needs better chance.
pub struct Chance(u64);

impl Chance {
    /// A number below `most`, which is not 0.
    pub const fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % most
    }
}

fn mutate(input: &mut Vec<u8>, corpus: &[Vec<u8>], chance: &mut Chance) {
    let at = chance.below(input.len() + 1);
    let end = (at + chance.below(9)).min(input.len());
    match chance.below(8) {
        0 => input.truncate(at),
        1 if at < input.len() => input[at] ^= 1 << chance.below(8),
        2 if at < input.len() => input[at] = TELLING[chance.below(TELLING.len())],
        3 => input.insert(at, TELLING[chance.below(TELLING.len())]),
        4 => drop(input.drain(at..end)),
        5 => {
            let piece = input[at..end].repeat(1 + chance.below(64));
            drop(input.splice(at..at, piece));
        }
        6 => {
            let other = &corpus[chance.below(corpus.len())];
            let from = chance.below(other.len() + 1);
            drop(input.splice(at.., other[from..].iter().copied()));
        }
        _ => input.insert(at, chance.below(256) as u8),
    }
}
