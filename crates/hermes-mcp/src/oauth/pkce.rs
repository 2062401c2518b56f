//! Proof keys: only who began a sign-in can redeem its code.

use std::io;

use data_encoding::BASE64URL_NOPAD;
use rustix::rand::{GetRandomFlags, getrandom};
use sha2::{Digest, Sha256};

/// The secret of one sign-in, and the value by which the server later recognises it.
pub(crate) struct PkceChallenge {
    pub(crate) verifier: String,
    /// Marks the browser's answer as one to this sign-in.
    pub(crate) state: String,
}

impl PkceChallenge {
    pub(crate) fn generate() -> io::Result<Self> {
        Ok(Self { verifier: random_text()?, state: random_text()? })
    }

    /// Returns the value for the method `S256`.
    pub(crate) fn challenge(&self) -> String {
        BASE64URL_NOPAD.encode(&Sha256::digest(self.verifier.as_bytes()))
    }
}

fn random_text() -> io::Result<String> {
    let mut bytes = [0_u8; 32];
    if getrandom(&mut bytes, GetRandomFlags::empty())? != bytes.len() {
        return Err(io::Error::other("the system gave too few random numbers"));
    }
    Ok(BASE64URL_NOPAD.encode(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_challenge_is_that_of_the_standard() {
        // RFC 7636, appendix B.
        let key = PkceChallenge {
            verifier: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned(),
            state: String::new(),
        };
        assert_eq!(key.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
        let (one, two) = (PkceChallenge::generate().unwrap(), PkceChallenge::generate().unwrap());
        assert!(one.verifier.len() >= 43 && one.verifier != two.verifier && one.state != one.verifier);
    }
}
