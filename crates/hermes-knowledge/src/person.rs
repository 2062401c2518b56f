//! The people behind the accounts of chat platforms.
//!
//! Decides whose profile and whose earlier conversations belong to an account. Invariant: two accounts are one person
//! only when the configuration says so, or when the account is the only one that may talk to the agent.

use std::path::PathBuf;

use hermes_config::Home;
use hermes_config::yaml::YamlValue;
use md5::{Digest as _, Md5};

/// The name under which the configuration lists the accounts of the person whose home this is.
const OWNER: &str = "owner";
/// The length from which the name of a folder is cut, and completed by a sum.
const LONGEST_NAME: usize = 160;

/// An account on a platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatIdentity {
    pub platform: String,
    pub user_id: String,
}

impl ChatIdentity {
    pub fn new(platform: &str, user_id: &str) -> Self {
        Self { platform: platform.to_owned(), user_id: user_id.to_owned() }
    }

    /// Formats the account as the setting lists it.
    pub fn listed_form(&self) -> String {
        format!("{}:{}", self.platform, self.user_id)
    }

    /// Parses `telegram:42`.
    pub fn parse(text: &str) -> Option<Self> {
        let (platform, user_id) = text.trim().split_once(':')?;
        (!platform.is_empty() && !user_id.is_empty()).then(|| Self::new(&platform.to_lowercase(), user_id))
    }
}

/// A person, as far as accounts tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PersonName {
    /// The person whose home this is.
    Owner,
    /// Somebody else, by their first account.
    Other(ChatIdentity),
}

/// Which accounts belong to one person: the setting `memory.people`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct People {
    /// Names with their accounts, as configured.
    listed: Vec<(String, Vec<ChatIdentity>)>,
}

impl People {
    /// Reads a mapping of names to lists of accounts. What is no account is left out.
    pub fn from_setting(setting: Option<&YamlValue>) -> Self {
        let Some(YamlValue::Map(map)) = setting else { return Self::default() };
        let accounts = |value: &YamlValue| -> Vec<ChatIdentity> {
            match value {
                YamlValue::Seq(items) => {
                    items.iter().filter_map(YamlValue::as_str).filter_map(ChatIdentity::parse).collect()
                }
                other => other.as_str().and_then(ChatIdentity::parse).into_iter().collect(),
            }
        };
        Self { listed: map.iter().map(|(name, value)| (name.to_owned(), accounts(value))).collect() }
    }

    /// Returns the entries of the setting that are no accounts.
    pub fn unusable(setting: Option<&YamlValue>) -> Vec<String> {
        let unusable = |value: &YamlValue| match value.as_str() {
            Some(text) if ChatIdentity::parse(text).is_some() => None,
            Some(text) => Some(format!("'{text}'")),
            None => Some(value.scalar_text().map_or("an entry".to_owned(), |text| format!("'{text}'"))),
        };
        match setting {
            None | Some(YamlValue::Null) => Vec::new(),
            Some(YamlValue::Map(map)) => map
                .iter()
                .flat_map(|(name, value)| {
                    let found: Vec<String> = match value {
                        YamlValue::Seq(items) => items.iter().filter_map(unusable).collect(),
                        value => unusable(value).into_iter().collect(),
                    };
                    found.into_iter().map(move |entry| format!("{entry} of {name}"))
                })
                .collect(),
            Some(_) => vec!["the whole entry".to_owned()],
        }
    }

    /// Returns the name under which an account is listed.
    pub fn listed_name(&self, account: &ChatIdentity) -> Option<&str> {
        let listed = self.listed.iter().find(|(_, accounts)| accounts.contains(account));
        listed.map(|(name, _)| name.as_str())
    }

    /// Returns the accounts that are listed under a name.
    pub fn listed_accounts(&self, name: &str) -> Option<&[ChatIdentity]> {
        self.listed.iter().find(|(known, _)| known == name).map(|(_, accounts)| accounts.as_slice())
    }

    /// Returns whose account this is. `is_alone` tells that nobody else may talk to the agent on its platform.
    pub fn person(&self, account: &ChatIdentity, is_alone: bool) -> PersonName {
        match self.listed.iter().find(|(_, accounts)| accounts.contains(account)) {
            Some((name, _)) if name == OWNER => PersonName::Owner,
            Some((_, accounts)) => PersonName::Other(accounts.first().unwrap_or(account).clone()),
            None if is_alone => PersonName::Owner,
            None => PersonName::Other(account.clone()),
        }
    }

    /// Returns the accounts of a person, with the one they use now.
    pub fn accounts(&self, person: &PersonName, current: Option<&ChatIdentity>) -> Vec<ChatIdentity> {
        let is_theirs = |name: &str, accounts: &[ChatIdentity]| match person {
            PersonName::Owner => name == OWNER,
            PersonName::Other(first) => name != OWNER && accounts.first() == Some(first),
        };
        let listed = self.listed.iter().filter(|(name, accounts)| is_theirs(name, accounts));
        let mut accounts: Vec<ChatIdentity> = listed.flat_map(|(_, accounts)| accounts.clone()).collect();
        accounts.extend(current.filter(|current| !accounts.contains(current)).cloned());
        accounts
    }
}

impl PersonName {
    /// Returns the folder of the person's profile.
    pub fn folder(&self, home: &Home) -> PathBuf {
        match self {
            Self::Owner => home.memories(),
            Self::Other(account) => home
                .memories()
                .join("users")
                .join(file_name(&account.platform))
                .join(file_name(&account.user_id)),
        }
    }
}

/// Returns a text as the name of a file, each other text as another one: what is no letter, digit or one of `-_@+` is
/// written as `%` and its bytes.
fn file_name(text: &str) -> String {
    let mut name = String::with_capacity(text.len());
    for (at, byte) in text.bytes().enumerate() {
        let is_plain = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'@' | b'+');
        if is_plain || (byte == b'.' && at > 0) {
            name.push(char::from(byte));
        } else {
            name.push('%');
            name.push_str(&data_encoding::HEXUPPER.encode(&[byte]));
        }
    }
    if name.len() > LONGEST_NAME {
        name.truncate(LONGEST_NAME);
        name.push('%');
        name.push_str(&data_encoding::HEXUPPER.encode(&Md5::digest(text.as_bytes())));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_one_person_only_when_listed() {
        let setting = YamlValue::Map(
            [
                ("owner".to_owned(), YamlValue::Seq(vec![YamlValue::Str("telegram:7".into())])),
                (
                    "ann".to_owned(),
                    YamlValue::Seq(vec![
                        YamlValue::Str("telegram:8".into()),
                        YamlValue::Str("slack:U1".into()),
                    ]),
                ),
            ]
            .into_iter()
            .collect(),
        );
        let people = People::from_setting(Some(&setting));
        let account = ChatIdentity::new;
        assert_eq!(people.person(&account("telegram", "7"), false), PersonName::Owner);
        let ann = PersonName::Other(account("telegram", "8"));
        assert_eq!(people.person(&account("slack", "U1"), true), ann);
        assert_eq!(people.accounts(&ann, None), [account("telegram", "8"), account("slack", "U1")]);
        assert_eq!(people.person(&account("slack", "U2"), true), PersonName::Owner);
        let stranger = account("slack", "U2");
        assert_eq!(people.person(&stranger, false), PersonName::Other(stranger.clone()));
    }

    #[test]
    fn names_of_files_stay_below_the_folder() {
        for (text, name) in [("../x", "%2E.%2Fx"), ("@a:b.org", "@a%3Ab.org"), ("..", "%2E."), ("a%", "a%25")]
        {
            assert_eq!(file_name(text), name);
        }
    }
}
