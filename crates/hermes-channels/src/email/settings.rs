//! The user's settings for mail.

use std::net::IpAddr;
use std::time::Duration;

use hermes_types::Secret;

use super::address::{domain_of, normal_address};
use crate::options::Options;

/// The names with which the servers of large providers sign their results, by the host of the mailbox. Only providers that
/// are known to check every mail, and to remove results that a sender wrote in their name.
const KNOWN_SERVERS: [(&str, &str); 2] =
    [("imap.gmail.com", "mx.google.com"), ("imap.fastmail.com", "messagingengine.com")];

/// Says how a connection is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MailSecurity {
    /// TLS from the first byte on.
    Tls,
    /// TLS after a command; without it nothing is sent.
    StartTls,
    /// None, for a server on this machine.
    Plain,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MailServer {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) security: MailSecurity,
}

/// Says how the sender of a mail is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SenderCheck {
    /// By the results of servers with these names, or below them.
    Results(Vec<String>),
    /// Not at all: the user turned it off.
    Off,
    /// The name of the receiving server is not known.
    Impossible,
}

#[derive(Debug, Clone)]
pub(super) struct EmailSettings {
    /// The address of the agent, in lower case.
    pub(super) address: String,
    pub(super) domain: String,
    pub(super) password: Secret,
    pub(super) imap: MailServer,
    pub(super) smtp: MailServer,
    /// The interval between looks where the server does not tell about new mail.
    pub(super) poll_interval: Duration,
    pub(super) skip_attachments: bool,
    pub(super) check: SenderCheck,
}

impl EmailSettings {
    pub(super) fn read(options: &Options) -> Result<Self, String> {
        let required =
            |name: &str| options.text(name).map(str::to_owned).ok_or_else(|| format!("{name} is not set"));
        let address = normal_address(&required("EMAIL_ADDRESS")?)
            .ok_or("EMAIL_ADDRESS is not an address in the form name@example.org")?;
        let password = required("EMAIL_PASSWORD")?;
        if password.chars().any(char::is_control) {
            return Err("EMAIL_PASSWORD contains a line break or another control character".to_owned());
        }
        let imap = server(options, "IMAP", 993)?;
        let smtp = server(options, "SMTP", 587)?;
        let poll = options.seconds("EMAIL_POLL_INTERVAL", 15.0);
        Ok(Self {
            domain: domain_of(&address).to_owned(),
            address,
            password: Secret::new(password),
            check: sender_check(options, &imap.host),
            imap,
            smtp,
            poll_interval: poll.max(Duration::from_secs(1)),
            skip_attachments: extra_flag(options, "skip_attachments", false),
        })
    }
}

fn extra_flag(options: &Options, key: &str, default: bool) -> bool {
    options.extra(key).and_then(serde_json::Value::as_bool).unwrap_or(default)
}

fn server(options: &Options, protocol: &str, default_port: u16) -> Result<MailServer, String> {
    let (host_name, port_name) = (format!("EMAIL_{protocol}_HOST"), format!("EMAIL_{protocol}_PORT"));
    let host = options.text(&host_name).ok_or_else(|| format!("{host_name} is not set"))?.to_lowercase();
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-._[]:".contains(c);
    if !host.chars().all(is_name) {
        return Err(format!("{host_name} is not the name of a server"));
    }
    let port = match options.text(&port_name) {
        Some(text) => text.parse().map_err(|_| format!("{port_name} is not a port number"))?,
        None => default_port,
    };
    let key = format!("{}_security", protocol.to_lowercase());
    let security = match options.extra_text(&key) {
        Some("tls") => MailSecurity::Tls,
        Some("starttls") => MailSecurity::StartTls,
        Some("plain") if is_loopback(&host) => MailSecurity::Plain,
        Some("plain") => {
            return Err(format!(
                "platforms.email.extra.{key}: `plain` is only for a server on this machine; use tls or starttls"
            ));
        }
        Some(other) => {
            return Err(format!("platforms.email.extra.{key}: `{other}` is not tls, starttls or plain"));
        }
        None if matches!(port, 143 | 25 | 587) => MailSecurity::StartTls,
        None => MailSecurity::Tls,
    };
    Ok(MailServer { host, port, security })
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_matches(['[', ']']);
    bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn sender_check(options: &Options, imap_host: &str) -> SenderCheck {
    let off = options.flag("EMAIL_TRUST_FROM_HEADER", false)
        || !extra_flag(options, "require_authenticated_sender", true);
    if off {
        return SenderCheck::Off;
    }
    let named: Vec<String> =
        options.list("EMAIL_AUTHSERV_ID").iter().map(|name| name.to_lowercase()).collect();
    if !named.is_empty() {
        return SenderCheck::Results(named);
    }
    match KNOWN_SERVERS.iter().find(|(host, _)| *host == imap_host) {
        Some((_, name)) => SenderCheck::Results(vec![(*name).to_owned()]),
        None => SenderCheck::Impossible,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(more: &[(&str, &str)], extra: Value) -> Result<EmailSettings, String> {
        let mut all = vec![
            ("EMAIL_ADDRESS", "Bot@Example.org"),
            ("EMAIL_PASSWORD", "secret"),
            ("EMAIL_IMAP_HOST", "imap.example.org"),
            ("EMAIL_SMTP_HOST", "smtp.example.org"),
        ];
        all.extend(more);
        let pairs = all.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        EmailSettings::read(&Options::new(pairs.collect(), extra))
    }

    #[test]
    fn ports_choose_the_encryption() {
        let settings = read(&[], json!({})).unwrap();
        assert_eq!((settings.address.as_str(), settings.domain.as_str()), ("bot@example.org", "example.org"));
        assert_eq!((settings.imap.port, settings.imap.security), (993, MailSecurity::Tls));
        assert_eq!((settings.smtp.port, settings.smtp.security), (587, MailSecurity::StartTls));
        let settings = read(&[("EMAIL_IMAP_PORT", "143"), ("EMAIL_SMTP_PORT", "465")], json!({})).unwrap();
        assert_eq!(settings.imap.security, MailSecurity::StartTls);
        assert_eq!(settings.smtp.security, MailSecurity::Tls);
        assert!(read(&[("EMAIL_IMAP_PORT", "x")], json!({})).unwrap_err().contains("EMAIL_IMAP_PORT"));
    }

    #[test]
    fn nothing_is_sent_in_the_clear_to_another_machine() {
        let plain = json!({"imap_security": "plain"});
        assert!(read(&[], plain.clone()).unwrap_err().contains("only for a server on this machine"));
        for host in ["127.0.0.1", "localhost", "[::1]"] {
            let settings = read(&[("EMAIL_IMAP_HOST", host)], plain.clone()).unwrap();
            assert_eq!(settings.imap.security, MailSecurity::Plain, "{host}");
        }
    }

    #[test]
    fn the_sender_is_checked_unless_it_is_turned_off() {
        let check = |more: &[(&str, &str)], extra: Value| read(more, extra).unwrap().check;
        assert_eq!(check(&[], json!({})), SenderCheck::Impossible);
        let google = SenderCheck::Results(vec!["mx.google.com".to_owned()]);
        assert_eq!(check(&[("EMAIL_IMAP_HOST", "imap.gmail.com")], json!({})), google);
        let named = SenderCheck::Results(vec!["mx.example.org".to_owned()]);
        assert_eq!(check(&[("EMAIL_AUTHSERV_ID", "MX.example.org")], json!({})), named);
        assert_eq!(check(&[("EMAIL_TRUST_FROM_HEADER", "true")], json!({})), SenderCheck::Off);
        assert_eq!(check(&[], json!({"require_authenticated_sender": false})), SenderCheck::Off);
    }
}
