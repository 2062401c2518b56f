//! Cryptographically secure random numbers.

use anyhow::{Result, bail};
use rustix::rand::{GetRandomFlags, getrandom};

/// Returns random bytes from the system.
pub(crate) fn bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0_u8; N];
    if getrandom(&mut bytes, GetRandomFlags::empty())? != N {
        bail!("the system gave too few random numbers");
    }
    Ok(bytes)
}

/// Returns this many random bytes as hexadecimal digits.
pub(crate) fn hex<const N: usize>() -> Result<String> {
    Ok(bytes::<N>()?.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}")))
}

/// Returns a random key of 64 hexadecimal digits.
pub(crate) fn key() -> Result<String> {
    hex::<32>()
}
