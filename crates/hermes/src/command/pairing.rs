//! `hermes pairing`: manages which users may talk to the agent.

use std::process::ExitCode;

use anyhow::{Result, bail};
use hermes_config::yaml::{KeyPath, YamlValue};
use hermes_config::{Config, ManagedMode, set};
use hermes_gateway::pairing::{PairingResult, PairingStore};
use hermes_knowledge::{ChatIdentity, People, PersonName};
use hermes_types::platform_facts;

use crate::cli::PairingCommand;
use crate::context::{ProgramContext, now};
use crate::output::Console;

/// The setting that lists the accounts of people.
const PEOPLE: &str = "memory.people";
/// The name of the person whose home this is.
const OWNER: &str = "owner";

pub(crate) fn run(command: &PairingCommand, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    let pairing = PairingStore::new(&context.home);
    match command {
        PairingCommand::List => list(&pairing, output),
        PairingCommand::Approve { platform, code, person } => {
            let platform = platform.to_lowercase();
            let links = PersonLinks::new(context)?;
            let person = person.as_deref().map(|person| links.parse(person, &pairing)).transpose()?;
            match pairing.approve(&platform, code, now())? {
                PairingResult::Approved { user_id, user_name } => {
                    let name = user_name.map(|name| format!(" ({name})")).unwrap_or_default();
                    output.line(&format!("✓ Approved {user_id}{name} on {platform}"));
                    if let Some(person) = person {
                        links.link(&person, &ChatIdentity::new(&platform, &user_id), output)?;
                    }
                }
                PairingResult::UnknownCode => {
                    output.error(&format!(
                        "the code is not known or has run out on {platform}; `hermes pairing list` shows those that wait"
                    ));
                }
                PairingResult::LockedOut => {
                    output.error(&format!("too many wrong codes on {platform}; try again in an hour"));
                    return Ok(ExitCode::FAILURE);
                }
            }
        }
        PairingCommand::Revoke { platform, user_id } => {
            let platform = platform.to_lowercase();
            if !pairing.revoke(&platform, user_id)? {
                output.error(&format!("{user_id} is not approved on {platform}"));
                return Ok(ExitCode::SUCCESS);
            }
            output.line(&format!("✓ Revoked {user_id} on {platform}"));
        }
        PairingCommand::ClearPending => {
            output.line(&format!("✓ Cleared {} pending request(s)", pairing.clear_pending(now())?));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Links accounts to people, in `memory.people`.
struct PersonLinks<'a> {
    context: &'a ProgramContext,
    people: People,
}

/// The person an account is to be linked to.
struct LinkTarget {
    name: String,
    /// The account the person had before, where it is not listed yet.
    earlier: Option<ChatIdentity>,
}

impl<'a> PersonLinks<'a> {
    fn new(context: &'a ProgramContext) -> Result<Self> {
        let config = Config::load(&context.home, &context.env);
        config.require_usable(&context.env)?;
        Ok(Self { context, people: People::from_setting(config.get(PEOPLE).as_ref()) })
    }

    /// Reads a name, or an account whose person is meant.
    fn parse(&self, text: &str, pairing: &PairingStore) -> Result<LinkTarget> {
        let text = text.trim();
        let account = ChatIdentity::parse(text);
        if let Some(account) = account.filter(|account| platform_facts(&account.platform).is_some()) {
            if let Some(name) = self.people.listed_name(&account) {
                return Ok(LinkTarget { name: name.to_owned(), earlier: None });
            }
            let mut approved = pairing.approved().into_iter();
            let known = approved.find(|(known, id, _)| (known, id) == (&account.platform, &account.user_id));
            let name = known.and_then(|(.., user)| user.user_name).filter(|name| is_name(name));
            let name = name.filter(|name| name != OWNER && self.people.listed_accounts(name).is_none());
            let name = name.unwrap_or_else(|| format!("{} {}", account.platform, account.user_id));
            return Ok(LinkTarget { name, earlier: Some(account) });
        }
        if !is_name(text) {
            bail!("`{text}` is no name of a person and no account such as telegram:42; nobody was approved");
        }
        Ok(LinkTarget { name: text.to_owned(), earlier: None })
    }

    fn link(&self, person: &LinkTarget, account: &ChatIdentity, output: &Console) -> Result<()> {
        let LinkTarget { name, earlier } = person;
        let form = account.listed_form();
        if let Some(other) = self.people.listed_name(account).filter(|other| other != name) {
            bail!(
                "{form} is listed for {other} already; it was approved and not linked. Change {PEOPLE} in config.yaml"
            );
        }
        let own = PersonName::Other(account.clone()).folder(&self.context.home).join("USER.md");
        let ProgramContext { home, env, .. } = self.context;
        let path = KeyPath::from_segments(["memory", "people", name.as_str()]);
        set::update_value(home, ManagedMode::detect(home, env), &path, |present| {
            let mut accounts: Vec<String> = match present {
                Some(YamlValue::Seq(items)) => items.iter().filter_map(YamlValue::scalar_text).collect(),
                Some(value) => value.scalar_text().into_iter().collect(),
                None => Vec::new(),
            };
            for form in earlier.iter().map(ChatIdentity::listed_form).chain([form.clone()]) {
                if !accounts.contains(&form) {
                    accounts.push(form);
                }
            }
            Some(YamlValue::Seq(accounts.iter().map(|account| account.as_str().into()).collect()))
        })?;
        let shares =
            if name == OWNER { "your own memory".to_owned() } else { format!("the memory of {name}") };
        output.line(&format!("✓ Linked {form}: it has {shares} now ({PEOPLE})"));
        let is_first = self.people.listed_accounts(name).is_none_or(<[_]>::is_empty) && earlier.is_none();
        if own.is_file() && (name == OWNER || !is_first) {
            output.line(&format!(
                "  What was noted for this account alone stays in {} and is not used.",
                own.display()
            ));
        }
        Ok(())
    }
}

/// Tells whether a text can name a person in the configuration.
fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_' | '.');
    !text.is_empty() && text.chars().count() <= 64 && text.trim() == text && text.chars().all(fits)
}

fn list(pairing: &PairingStore, output: &Console) {
    let (pending, approved) = (pairing.pending(now()), pairing.approved());
    if pending.is_empty() && approved.is_empty() {
        output.line("No pending or approved users.");
        return;
    }
    if !pending.is_empty() {
        output.line("Pending:");
        for (platform, code, request) in pending {
            let minutes = now().since(hermes_types::Timestamp(request.created_at)).as_secs() / 60;
            let name = request.user_name.unwrap_or_default();
            output.line(&format!(
                "  {platform:<12} {code:<10} {:<20} {name:<20} {minutes} min ago",
                request.user_id
            ));
        }
    }
    if !approved.is_empty() {
        output.line("Approved:");
        for (platform, id, person) in approved {
            output.line(&format!("  {platform:<12} {id:<20} {}", person.user_name.unwrap_or_default()));
        }
    }
}
