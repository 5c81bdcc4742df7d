//! What a store tells after a batch: its time, and the state of each counter.

use tidegate_core::algorithms::State;
use tidegate_core::algorithms::token_bucket::Bucket;
use tidegate_core::algorithms::windows::Windows;
use tidegate_core::units::{LONGEST_PERIOD_US, MAX};

use super::late::{Gap, Gaps};

/// What stands after the records of a settling.
#[derive(Debug)]
pub(super) struct Told<'t> {
    /// The store's time, unix microseconds.
    pub(super) now_us: u64,
    states: &'t [u8],
}

impl<'t> Told<'t> {
    /// Reads the part after the records; none: it is something else.
    pub(super) fn read(told: &'t [u8]) -> Option<Self> {
        let (now, states) = told.split_first_chunk()?;
        Some(Self { now_us: whole(*now)?, states })
    }

    /// The next counter's state; of a bucket when it was idle as well.
    pub(super) fn next(&mut self) -> Option<(State, Gaps)> {
        let (length, rest) = self.states.split_first()?;
        let (state, rest) = rest.split_at_checked(usize::from(*length))?;
        self.states = rest;
        read(state)
    }
}

/// A state as `decide.lua` packs it; none: it is none of ours, whoever wrote it.
fn read(state: &[u8]) -> Option<(State, Gaps)> {
    let Some((form, numbers)) = state.split_first() else {
        return Some((State::Absent, Gaps::new()));
    };
    let (numbers, rest) = numbers.as_chunks::<8>();
    if !rest.is_empty() {
        return None;
    }
    let number = |at: usize| numbers.get(at).and_then(|number| whole(*number));
    let mut gaps = Gaps::new();
    let state = match (form, numbers.len()) {
        (17, 2) => State::Windows(Windows { last: number(0)?, cur: number(1)?, prev: 0 }),
        (18, 3) => State::Windows(Windows { last: number(0)?, cur: number(1)?, prev: number(2)? }),
        (20, 5..) => {
            let [last, level, rem] = [number(0)?, number(1)?, number(2)?];
            let [n, period_us] = [number(3)?, number(4)?];
            let is_rate = n > 0 && (1..=LONGEST_PERIOD_US).contains(&period_us);
            if !is_rate || rem >= period_us {
                return None;
            }
            let (pairs, rest) = numbers[5..].as_chunks::<2>();
            if !rest.is_empty() {
                return None;
            }
            for [stop, idle] in pairs {
                gaps.push(Gap { stop_us: whole(*stop)?, idle: whole(*idle)?.into() });
            }
            State::Bucket(Bucket { last, level, rem, n, period_us })
        }
        _ => return None,
    };
    Some((state, gaps))
}

/// A whole number below 2^53, as a double.
fn whole(bytes: [u8; 8]) -> Option<u64> {
    let number = f64::from_le_bytes(bytes);
    let is_whole = (0.0..=MAX as f64).contains(&number) && number.fract() == 0.0;
    is_whole.then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(form: u8, numbers: &[f64]) -> Vec<u8> {
        let numbers: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        [&[1 + numbers.len() as u8, form][..], &numbers].concat()
    }

    #[test]
    fn states_are_read_in_their_order() {
        let bytes = [
            &7.0_f64.to_le_bytes()[..],
            &packed(17, &[5.0, 2.0]),
            &[0],
            &packed(20, &[5.0, 2.0, 1.0, 10.0, 60e6]),
            &packed(20, &[5.0, 2.0, 1.0, 10.0, 60e6, 3.0, 20.0]),
        ]
        .concat();
        let mut told = Told::read(&bytes).unwrap();
        assert_eq!(told.now_us, 7);
        let windows = State::Windows(Windows { last: 5, cur: 2, prev: 0 });
        assert_eq!(told.next(), Some((windows, Gaps::new())));
        assert_eq!(told.next(), Some((State::Absent, Gaps::new())));
        let bucket = Bucket { last: 5, level: 2, rem: 1, n: 10, period_us: 60_000_000 };
        assert_eq!(told.next(), Some((State::Bucket(bucket), Gaps::new())));
        let gaps = [Gap { stop_us: 3, idle: 20 }].into_iter().collect();
        assert_eq!(told.next(), Some((State::Bucket(bucket), gaps)));
        assert_eq!(told.next(), None);
    }

    #[test]
    fn what_is_no_state_of_ours_is_none() {
        let bucket = |rem, n, period| packed(20, &[5.0, 2.0, rem, n, period]);
        for bytes in [
            packed(17, &[1.0]),
            packed(19, &[1.0, 2.0]),
            vec![3, 17, 0, 0],
            vec![9, 17],
            packed(17, &[1.0, -1.0]),
            packed(17, &[1.5, 1.0]),
            packed(18, &[1.0, 1.0, f64::NAN]),
            packed(18, &[9_007_199_254_740_992.0, 1.0, 1.0]),
            bucket(0.0, 10.0, 0.0),
            bucket(0.0, 10.0, 0.5),
            bucket(0.0, 10.0, -60e6),
            bucket(0.0, 10.0, f64::NAN),
            bucket(0.0, 10.0, 367.0 * 86_400e6),
            bucket(0.0, 0.0, 60e6),
            bucket(60e6, 10.0, 60e6),
            packed(20, &[5.0, 2.0, 1.0, 10.0, 60e6, 3.0]),
            packed(20, &[5.0, 2.0, 1.0, 10.0, 60e6, 3.0, -1.0]),
        ] {
            let bytes = [&7.0_f64.to_le_bytes()[..], &bytes].concat();
            assert_eq!(Told::read(&bytes).unwrap().next(), None);
        }
        assert!(Told::read(&[0; 7]).is_none());
        assert!(Told::read(&f64::NAN.to_le_bytes()).is_none());
    }
}
