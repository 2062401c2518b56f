//! The user's Matrix settings.

use hermes_net::Url;
use hermes_types::Secret;

use crate::options::Options;
use crate::rest::base_url;

/// How the bot signs in.
#[derive(Debug, Clone)]
pub(super) enum MatrixLogin {
    Token(Secret),
    Password { user: String, password: Secret },
}

/// Whether encrypted rooms are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EncryptionMode {
    Off,
    /// Rooms are used as they are.
    Optional,
    /// Rooms that are not encrypted are not used.
    Required,
}

#[derive(Debug, Clone)]
pub(super) struct MatrixSettings {
    /// The address of the homeserver, with a trailing slash.
    pub(super) server: Url,
    pub(super) login: MatrixLogin,
    /// The password, also where a token is used: some requests need it.
    pub(super) password: Option<Secret>,
    pub(super) device: Option<String>,
    pub(super) encryption: EncryptionMode,
    pub(super) recovery_key: Option<Secret>,
    pub(super) require_mention: bool,
    pub(super) free_rooms: Vec<String>,
    /// The allowed rooms; empty means all.
    pub(super) allowed_rooms: Vec<String>,
    /// Answers a question in a room in a thread of its own.
    pub(super) auto_thread: bool,
    pub(super) reactions: bool,
}

impl MatrixSettings {
    pub(super) fn read(options: &Options) -> Result<Self, String> {
        let given = options.extra_text("base_url").or_else(|| options.text("MATRIX_HOMESERVER"));
        let server = base_url(given.ok_or("MATRIX_HOMESERVER is not set")?, "MATRIX_HOMESERVER")?;
        let password = options.secret("MATRIX_PASSWORD");
        let login = match (options.secret("MATRIX_ACCESS_TOKEN"), options.text("MATRIX_USER_ID"), &password) {
            (Some(token), _, _) => MatrixLogin::Token(token),
            (None, Some(user), Some(password)) => {
                MatrixLogin::Password { user: user.to_owned(), password: password.clone() }
            }
            (None, None, Some(_)) => return Err("MATRIX_USER_ID is not set".to_owned()),
            (None, _, None) => {
                return Err("set MATRIX_ACCESS_TOKEN, or MATRIX_USER_ID and MATRIX_PASSWORD".to_owned());
            }
        };
        let switched = options.flag("MATRIX_ENCRYPTION", false);
        let encryption = match options.text("MATRIX_E2EE_MODE").map(str::to_lowercase).as_deref() {
            None if switched => EncryptionMode::Optional,
            None | Some("off" | "false") => EncryptionMode::Off,
            Some("optional" | "on" | "true") => EncryptionMode::Optional,
            Some("required") => EncryptionMode::Required,
            Some(other) => {
                return Err(format!("MATRIX_E2EE_MODE is {other}; it can be off, optional or required"));
            }
        };
        if encryption != EncryptionMode::Off && !super::encryption::IS_BUILT {
            return Err(
                "this build of Hermes has no encryption for Matrix; unset MATRIX_ENCRYPTION".to_owned()
            );
        }
        Ok(Self {
            server,
            login,
            password,
            device: options.text("MATRIX_DEVICE_ID").map(str::to_owned),
            encryption,
            recovery_key: options.secret("MATRIX_RECOVERY_KEY"),
            require_mention: options.flag("MATRIX_REQUIRE_MENTION", true),
            free_rooms: options.list("MATRIX_FREE_RESPONSE_ROOMS"),
            allowed_rooms: options.list("MATRIX_ALLOWED_ROOMS"),
            auto_thread: options.flag("MATRIX_AUTO_THREAD", false),
            reactions: options.flag("MATRIX_REACTIONS", false),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(more: &[(&str, &str)]) -> Result<MatrixSettings, String> {
        let mut pairs = vec![("MATRIX_HOMESERVER", "https://matrix.example.org")];
        pairs.extend(more);
        let pairs = pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        MatrixSettings::read(&Options::new(pairs.collect(), serde_json::Value::Null))
    }

    #[test]
    fn ways_to_sign_in() {
        let (token, user, password) =
            (("MATRIX_ACCESS_TOKEN", "t"), ("MATRIX_USER_ID", "@b:x"), ("MATRIX_PASSWORD", "p"));
        assert!(matches!(read(&[token, user, password]).unwrap().login, MatrixLogin::Token(_)));
        assert!(matches!(read(&[user, password]).unwrap().login, MatrixLogin::Password { .. }));
        for (given, missing) in [(&[user][..], "MATRIX_ACCESS_TOKEN"), (&[password], "MATRIX_USER_ID")] {
            assert!(read(given).unwrap_err().contains(missing), "{given:?}");
        }
    }

    #[test]
    fn encryption_by_either_setting() {
        let mode = |more: &[(&str, &str)]| {
            let mut pairs = vec![("MATRIX_ACCESS_TOKEN", "t")];
            pairs.extend(more);
            read(&pairs).map(|settings| settings.encryption)
        };
        assert_eq!(mode(&[]), Ok(EncryptionMode::Off));
        assert!(mode(&[("MATRIX_E2EE_MODE", "maybe")]).is_err());
        if super::super::encryption::IS_BUILT {
            assert_eq!(mode(&[("MATRIX_ENCRYPTION", "true")]), Ok(EncryptionMode::Optional));
            assert_eq!(
                mode(&[("MATRIX_ENCRYPTION", "true"), ("MATRIX_E2EE_MODE", "off")]),
                Ok(EncryptionMode::Off)
            );
            assert_eq!(mode(&[("MATRIX_E2EE_MODE", "required")]), Ok(EncryptionMode::Required));
        }
    }
}
