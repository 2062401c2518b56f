//! What an identifier names: the registry, and the place in it.

use std::path::{Component, Path};

use crate::Error;

/// A registry, in the order in which they are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SkillRegistry {
    Official,
    SkillsSh,
    WellKnown,
    Github,
    Clawhub,
    ClaudeMarketplace,
    Lobehub,
    /// A `SKILL.md` anywhere in the web.
    Url,
    /// A folder or an archive of this machine.
    Local,
}

impl SkillRegistry {
    /// The registries that can be searched.
    pub const SEARCHED: [Self; 7] = [
        Self::Official,
        Self::SkillsSh,
        Self::WellKnown,
        Self::Github,
        Self::Clawhub,
        Self::ClaudeMarketplace,
        Self::Lobehub,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Official => "official",
            Self::SkillsSh => "skills-sh",
            Self::WellKnown => "well-known",
            Self::Github => "github",
            Self::Clawhub => "clawhub",
            Self::ClaudeMarketplace => "claude-marketplace",
            Self::Lobehub => "lobehub",
            Self::Url => "url",
            Self::Local => "local",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::SEARCHED.into_iter().find(|source| source.as_str() == name)
    }

    /// Returns the most skills of this registry that browsing shows.
    pub(crate) fn browse_limit(self) -> usize {
        match self {
            Self::Official | Self::SkillsSh | Self::Github => 100,
            Self::WellKnown => 25,
            _ => 50,
        }
    }
}

/// The prefixes of the catalogue, with the usual misspellings.
const SKILLS_SH: [&str; 4] = ["skills-sh/", "skills.sh/", "skils-sh/", "skils.sh/"];

/// An identifier, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SkillAddress {
    Official {
        path: String,
    },
    SkillsSh {
        repository: String,
        skill: String,
    },
    WellKnown {
        site: String,
        name: Option<String>,
    },
    Repository {
        repository: String,
        path: String,
    },
    Clawhub {
        slug: String,
    },
    Lobehub {
        id: String,
    },
    Url(String),
    Local(String),
    /// A word that could name a skill of Clawhub, or be searched for.
    Name(String),
}

impl SkillAddress {
    pub(crate) fn parse(given: &str) -> Result<Self, Error> {
        let given = given.trim();
        let invalid = || Error::Invalid(format!("'{given}' does not name a skill"));
        if given.is_empty() || given.contains(['\0', '\n']) {
            return Err(invalid());
        }
        if given.starts_with(['/', '~'])
            || given.starts_with("./")
            || given.starts_with("../")
            || given == "."
        {
            return Ok(Self::Local(given.to_owned()));
        }
        if let Some(rest) = given.strip_prefix("well-known:") {
            let (site, name) = match rest.rsplit_once('/') {
                Some((site, name)) if !site.ends_with('/') && !name.is_empty() => {
                    (site, Some(name.to_owned()))
                }
                _ => (rest.trim_end_matches('/'), None),
            };
            return Ok(Self::WellKnown { site: site_of(site), name });
        }
        if given.starts_with("https://") || given.starts_with("http://") {
            return Ok(Self::of_url(given));
        }
        if let Some(path) = given.strip_prefix("official/") {
            return Ok(Self::Official { path: plain_path(path).ok_or_else(invalid)? });
        }
        let catalogue = SKILLS_SH.iter().find_map(|prefix| given.strip_prefix(prefix));
        if let Some(rest) = catalogue {
            let path = plain_path(rest).ok_or_else(invalid)?;
            let mut parts = path.splitn(3, '/');
            let (Some(owner), Some(name), Some(skill)) = (parts.next(), parts.next(), parts.next()) else {
                return Err(invalid());
            };
            return Ok(Self::SkillsSh { repository: format!("{owner}/{name}"), skill: skill.to_owned() });
        }
        if let Some(slug) = given.strip_prefix("clawhub/") {
            return Ok(Self::Clawhub {
                slug: plain_path(slug).filter(|slug| !slug.contains('/')).ok_or_else(invalid)?,
            });
        }
        if let Some(id) = given.strip_prefix("lobehub/") {
            return Ok(Self::Lobehub {
                id: plain_path(id).filter(|id| !id.contains('/')).ok_or_else(invalid)?,
            });
        }
        let path = plain_path(given).ok_or_else(invalid)?;
        match path.split('/').count() {
            1 => Ok(Self::Name(path)),
            2 => Ok(Self::Repository { repository: path, path: String::new() }),
            _ => {
                let mut parts = path.splitn(3, '/');
                let (owner, name, rest) = (parts.next(), parts.next(), parts.next());
                Ok(Self::Repository {
                    repository: format!("{}/{}", owner.unwrap_or_default(), name.unwrap_or_default()),
                    path: rest.unwrap_or_default().to_owned(),
                })
            }
        }
    }

    fn of_url(given: &str) -> Self {
        const FOLDER: &str = "/.well-known/skills/";
        if let Some((site, rest)) = given.split_once(FOLDER) {
            let name = match rest.strip_prefix("index.json") {
                Some(fragment) => fragment.strip_prefix('#').map(str::to_owned),
                None => {
                    rest.strip_suffix("/SKILL.md").or(Some(rest.trim_end_matches('/'))).map(str::to_owned)
                }
            };
            return Self::WellKnown { site: site_of(site), name: name.filter(|name| !name.is_empty()) };
        }
        let path = given.split(['?', '#']).next().unwrap_or(given);
        if path.to_ascii_lowercase().ends_with(".md") {
            return Self::Url(given.to_owned());
        }
        Self::WellKnown { site: site_of(given), name: None }
    }
}

/// Returns the address of a site without its last slash, with a scheme.
fn site_of(site: &str) -> String {
    let site = site.trim_end_matches('/');
    if site.starts_with("http://") || site.starts_with("https://") {
        site.to_owned()
    } else {
        format!("https://{site}")
    }
}

/// Returns a path of plain components, or `None` if it leads anywhere else.
pub(crate) fn plain_path(path: &str) -> Option<String> {
    if path.contains(['\\', '\0', '?', '#', '%', ' ']) {
        return None;
    }
    let mut parts = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::CurDir => {}
            _ => return None,
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: &str, expected: SkillAddress) {
        assert_eq!(SkillAddress::parse(given).ok(), Some(expected), "{given}");
    }

    #[test]
    fn every_documented_form_is_understood() {
        let text = str::to_owned;
        let well_known = |name: Option<&str>| SkillAddress::WellKnown {
            site: text("https://x.test"),
            name: name.map(text),
        };
        check("official/devops/docker", SkillAddress::Official { path: text("devops/docker") });
        for prefix in ["skills-sh", "skills.sh", "skils-sh", "skils.sh"] {
            let expected = SkillAddress::SkillsSh { repository: text("a/b"), skill: text("c") };
            check(&format!("{prefix}/a/b/c"), expected);
        }
        check("well-known:x.test/tool", well_known(Some("tool")));
        check("well-known:https://x.test/tool", well_known(Some("tool")));
        check("https://x.test", well_known(None));
        check("https://x.test/.well-known/skills/index.json#tool", well_known(Some("tool")));
        check("https://x.test/.well-known/skills/tool/SKILL.md", well_known(Some("tool")));
        check("https://x.test/docs/SKILL.md", SkillAddress::Url(text("https://x.test/docs/SKILL.md")));
        check("a/b/c/d", SkillAddress::Repository { repository: text("a/b"), path: text("c/d") });
        check("clawhub/tool", SkillAddress::Clawhub { slug: text("tool") });
        check("lobehub/tool", SkillAddress::Lobehub { id: text("tool") });
        check("./here", SkillAddress::Local(text("./here")));
        check("tool", SkillAddress::Name(text("tool")));
        for given in ["", "a/../b/c", "official/..", "skills-sh/a/b", "clawhub/a/b", "a b", "a\\b"] {
            assert!(SkillAddress::parse(given).is_err(), "{given}");
        }
    }
}
