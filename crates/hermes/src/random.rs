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

/// Returns a random key of 64 hexadecimal digits.
pub(crate) fn key() -> Result<String> {
    Ok(bytes::<32>()?.iter().fold(String::new(), |key, byte| key + &format!("{byte:02x}")))
}
