//! Files of encrypted rooms. Pure.

use std::io::{Cursor, Read as _};

use matrix_sdk_crypto::{AttachmentDecryptor, AttachmentEncryptor, MediaEncryptionInfo};
use serde_json::Value;

use crate::error::Error;

/// A file that only those who get its description can read.
#[derive(Debug)]
pub struct EncryptedFile {
    pub bytes: Vec<u8>,
    /// The `file` object of a message, without its `url`.
    pub description: Value,
}

/// Encrypts a file with a key of its own.
pub fn encrypt_file(bytes: &[u8]) -> Result<EncryptedFile, Error> {
    let mut input = Cursor::new(bytes);
    let mut encryptor = AttachmentEncryptor::new(&mut input);
    let mut encrypted = Vec::with_capacity(bytes.len());
    encryptor.read_to_end(&mut encrypted).map_err(Error::invalid)?;
    let description = serde_json::to_value(encryptor.finish()).map_err(Error::invalid)?;
    Ok(EncryptedFile { bytes: encrypted, description })
}

/// Decrypts a file by the `file` object of its message. What was changed on its way is an error.
pub fn decrypt_file(bytes: &[u8], description: &Value) -> Result<Vec<u8>, Error> {
    let info: MediaEncryptionInfo = serde_json::from_value(description.clone()).map_err(Error::invalid)?;
    let mut input = Cursor::new(bytes);
    let mut decryptor = AttachmentDecryptor::new(&mut input, info).map_err(Error::invalid)?;
    let mut plain = Vec::with_capacity(bytes.len());
    decryptor.read_to_end(&mut plain).map_err(Error::invalid)?;
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_is_read_only_as_it_was_written() {
        let encrypted = encrypt_file(b"a picture").unwrap();
        assert_ne!(encrypted.bytes, b"a picture");
        assert_eq!(encrypted.description["v"], "v2");
        assert_eq!(decrypt_file(&encrypted.bytes, &encrypted.description).unwrap(), b"a picture");
        let mut changed = encrypted.bytes.clone();
        changed[0] ^= 1;
        assert!(matches!(decrypt_file(&changed, &encrypted.description), Err(Error::Invalid(_))));
        for description in
            [json!({}), json!(null), json!({"v": "v2", "key": {"k": "x"}, "iv": "", "hashes": {}})]
        {
            assert!(matches!(decrypt_file(b"x", &description), Err(Error::Invalid(_))), "{description}");
        }
    }
}
