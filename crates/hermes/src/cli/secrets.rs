//! The command line of `hermes secrets`.

use std::path::PathBuf;

use clap::Subcommand;

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum SecretsCommand {
    /// Keys in Bitwarden Secrets Manager
    #[command(visible_alias = "bw")]
    Bitwarden {
        #[command(subcommand)]
        command: Option<BitwardenCommand>,
    },
    /// Keys in 1Password
    #[command(visible_aliases = ["op", "1password"])]
    Onepassword {
        #[command(subcommand)]
        command: Option<OnePasswordCommand>,
    },
}

#[derive(Debug, Clone, Default, Subcommand)]
pub(crate) enum BitwardenCommand {
    /// Store the access token, choose the project, and try it
    #[command(
        after_help = "Example: hermes secrets bitwarden setup --project-id 1234 --access-token - < token.txt"
    )]
    Setup {
        /// Access token of a machine account; `-` reads it from standard input
        #[arg(long, value_name = "TOKEN")]
        access_token: Option<String>,
        /// Id of the project
        #[arg(long, value_name = "ID")]
        project_id: Option<String>,
        /// Address of the server, such as https://vault.bitwarden.eu
        #[arg(long, value_name = "URL")]
        server_url: Option<String>,
    },
    /// Show what is set up
    #[command(after_help = "Example: hermes secrets bitwarden status")]
    #[default]
    Status,
    /// Fetch the keys now, and show their names
    #[command(after_help = "Example: hermes secrets bitwarden sync")]
    Sync,
    /// Don't fetch keys any more; token and project are kept
    #[command(after_help = "Example: hermes secrets bitwarden disable")]
    Disable,
}

#[derive(Debug, Clone, Default, Subcommand)]
pub(crate) enum OnePasswordCommand {
    /// Turn it on, with the account or the token of a service account
    #[command(after_help = "Examples:\n  hermes secrets onepassword setup --account my.1password.com\n  \
                            hermes secrets onepassword setup --token - < token.txt")]
    Setup {
        /// Account to use
        #[arg(long)]
        account: Option<String>,
        /// Token of a service account; `-` reads it from standard input
        #[arg(long)]
        token: Option<String>,
        /// Variable that holds the token [default: OP_SERVICE_ACCOUNT_TOKEN]
        #[arg(long, value_name = "NAME")]
        token_env: Option<String>,
        /// Path of the program `op`
        #[arg(long, value_name = "FILE")]
        binary_path: Option<PathBuf>,
    },
    /// Show what is set up
    #[command(after_help = "Example: hermes secrets onepassword status")]
    #[default]
    Status,
    /// Take a key from 1Password
    #[command(
        after_help = "Example: hermes secrets onepassword set OPENAI_API_KEY 'op://Private/OpenAI/api key'"
    )]
    Set {
        /// Variable, such as OPENAI_API_KEY
        name: String,
        /// Where its value is: op://vault/item/field
        reference: String,
    },
    /// Don't take a key from 1Password any more
    #[command(after_help = "Example: hermes secrets onepassword remove OPENAI_API_KEY")]
    Remove {
        /// Variable, such as OPENAI_API_KEY
        name: String,
    },
    /// Fetch the keys now, and show their names
    #[command(after_help = "Example: hermes secrets onepassword sync")]
    Sync,
    /// Don't fetch keys any more; the references are kept
    #[command(after_help = "Example: hermes secrets onepassword disable")]
    Disable,
}
