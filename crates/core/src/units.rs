//! Exact integer arithmetic on microseconds and request counts.

/// The largest count or time that is stored or said: the last integer that an IEEE double holds
/// exactly, because the store's script language computes in doubles.
pub const MAX: u64 = (1 << 53) - 1;

/// A clock behind the last write by up to this many microseconds stands still.
pub const FREEZE_US: u64 = 1_000_000;

/// The longest period of a limit: 366 days, microseconds.
pub const LONGEST_PERIOD_US: u64 = 366 * 86_400 * 1_000_000;

/// `a * b / d` as (quotient, remainder) without losing a bit.
///
/// A quotient above [`MAX`] saturates there, with remainder 0. `d` must not be zero.
#[inline]
pub const fn mul_div(a: u64, b: u64, d: u64) -> (u64, u64) {
    if let Some(product) = a.checked_mul(b) {
        let quotient = product / d;
        return if quotient > MAX { (MAX, 0) } else { (quotient, product % d) };
    }
    let product = a as u128 * b as u128;
    let quotient = product / d as u128;
    if quotient > MAX as u128 { (MAX, 0) } else { (quotient as u64, (product % d as u128) as u64) }
}

/// `ceil((a * b + c) / d)`, saturating at [`MAX`]. `d` must not be zero.
#[inline]
pub const fn mul_add_div_ceil(a: u64, b: u64, c: u64, d: u64) -> u64 {
    let quotient = (a as u128 * b as u128 + c as u128).div_ceil(d as u128);
    if quotient > MAX as u128 { MAX } else { quotient as u64 }
}

/// The sum, saturating at [`MAX`].
#[inline]
pub const fn add(a: u64, b: u64) -> u64 {
    let sum = a.saturating_add(b);
    if sum > MAX { MAX } else { sum }
}
