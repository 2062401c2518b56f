//! The command line: names, help texts and types of every command and flag.

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

/// The text after the help, which lists the exit codes.
const AFTER_HELP: &str = "Exit codes: 0 done, 1 failed or not found, 2 wrong command line, 78 gateway configuration, 130 interrupted.\n\
                          The whole table is in docs/reference/exit-codes.md.";

/// A personal AI agent in one binary.
#[derive(Debug, Parser)]
#[command(name = "hermes", display_name = "Hermes Agent", version = VERSION, disable_help_subcommand = true, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    /// Without a command, `chat` is meant, and its flags are understood here too
    #[command(flatten)]
    pub(crate) chat: ChatArguments,
    #[command(subcommand)]
    pub(crate) command: Option<CliCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Talk, or ask one thing
    Chat(ChatArguments),
    /// Show which model answers, or choose another
    Model {
        /// A model, also as provider:model; without it, the current one is shown
        name: Option<String>,
    },
    /// Sign in to a provider with a code
    Login(LoginArguments),
    /// Sign out of a provider
    Logout {
        /// nous, openai-codex or copilot; without it, the one signed in last
        #[arg(long)]
        provider: Option<String>,
    },
    /// Show and change the configuration
    Config {
        #[command(subcommand)]
        command: Option<ConfigCommand>,
    },
    /// List, search, export and remove stored conversations
    Sessions {
        #[command(subcommand)]
        command: Option<SessionsCommand>,
    },
    /// What was used: sessions, tokens, money, tools, times of day
    Insights {
        /// How far back
        #[arg(long, default_value_t = 30)]
        days: u32,
        /// Only this source
        #[arg(long)]
        source: Option<String>,
    },
    /// What is set up: model, keys, platforms, gateway, jobs
    Status {
        /// Also keys that are not set
        #[arg(long)]
        all: bool,
        /// Also try whether the API server answers
        #[arg(long)]
        deep: bool,
    },
    /// How large the prompt is, by layer and tool
    PromptSize {
        #[arg(long, default_value = "cli")]
        platform: String,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Be there always: chats, the API server, scheduled jobs
    Gateway {
        #[command(subcommand)]
        command: Option<GatewayCommand>,
    },
    /// Who may talk to the agent from chats
    Pairing {
        #[command(subcommand)]
        command: Option<PairingCommand>,
    },
    /// Send a message to a chat; without a target, list the chats
    Send(SendArguments),
    /// Take events of other services
    Webhook {
        #[command(subcommand)]
        command: Option<WebhookCommand>,
    },
    /// Jobs that run by themselves
    Cron {
        #[command(subcommand)]
        command: Option<CronCommand>,
    },
    /// Check, copy and repair the database
    Db {
        #[command(subcommand)]
        command: Option<DbCommand>,
    },
    /// Bring this program up to date, the way it was installed
    Update {
        /// What is left to do when the new program is in its place
        #[arg(long, hide = true)]
        installed: bool,
    },
    /// Print a completion script for a shell
    Completion { shell: Shell },
    /// Print the version
    Version,
}

#[derive(Debug, Clone, Default, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "one field per flag")]
pub(crate) struct ChatArguments {
    /// Ask this and end; without it, a chat begins, or standard input is the question
    #[arg(short, long)]
    pub(crate) query: Option<String>,
    /// Ask this, print only the answer, and allow every command
    #[arg(short = 'z', long, conflicts_with = "query")]
    pub(crate) oneshot: Option<String>,
    /// With --oneshot: write what was used to this file, as JSON
    #[arg(long, requires = "oneshot")]
    pub(crate) usage_file: Option<std::path::PathBuf>,
    /// The model, also as provider:model
    #[arg(short, long)]
    pub(crate) model: Option<String>,
    /// The provider, or the name of an endpoint of your own
    #[arg(long)]
    pub(crate) provider: Option<String>,
    /// Toolsets to use, separated by commas; `all` is every one
    #[arg(short, long)]
    pub(crate) toolsets: Option<String>,
    /// Print the answer and nothing else
    #[arg(short = 'Q', long)]
    pub(crate) quiet: bool,
    /// Show arguments and results of tools
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Go on with this session, by its id or title
    #[arg(short, long, value_name = "SESSION", num_args = 0..=1, default_missing_value = "")]
    pub(crate) resume: Option<String>,
    /// Go on with the newest session, or with the one of this name
    #[arg(short, long = "continue", value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    pub(crate) go_on: Option<String>,
    /// Run dangerous commands without asking
    #[arg(long)]
    pub(crate) yolo: bool,
    /// Tell the model the session's id
    #[arg(long)]
    pub(crate) pass_session_id: bool,
    /// Keep copies of files before they are changed, whatever the configuration says
    #[arg(long)]
    pub(crate) checkpoints: bool,
    /// What the session is listed under
    #[arg(long, value_name = "TAG")]
    pub(crate) source: Option<String>,
    /// The most calls to the model in a turn
    #[arg(long, value_name = "N")]
    pub(crate) max_turns: Option<usize>,
    /// Load no context files, no memory and no skills
    #[arg(long)]
    pub(crate) ignore_rules: bool,
    /// List the tools, and which toolset each belongs to
    #[arg(long)]
    pub(crate) list_tools: bool,
    /// List the toolsets
    #[arg(long)]
    pub(crate) list_toolsets: bool,
    /// Understood for compatibility; there is one interface
    #[arg(long, hide = true)]
    pub(crate) cli: bool,
    #[arg(long, hide = true)]
    pub(crate) tui: bool,
}

impl ChatArguments {
    /// Merges flags given before and after `chat`; those after it win.
    pub(crate) fn merge_over(self, before: Self) -> Self {
        Self {
            query: self.query.or(before.query),
            oneshot: self.oneshot.or(before.oneshot),
            usage_file: self.usage_file.or(before.usage_file),
            model: self.model.or(before.model),
            provider: self.provider.or(before.provider),
            toolsets: self.toolsets.or(before.toolsets),
            quiet: self.quiet || before.quiet,
            verbose: self.verbose || before.verbose,
            resume: self.resume.or(before.resume),
            go_on: self.go_on.or(before.go_on),
            yolo: self.yolo || before.yolo,
            pass_session_id: self.pass_session_id || before.pass_session_id,
            checkpoints: self.checkpoints || before.checkpoints,
            source: self.source.or(before.source),
            max_turns: self.max_turns.or(before.max_turns),
            ignore_rules: self.ignore_rules || before.ignore_rules,
            list_tools: self.list_tools || before.list_tools,
            list_toolsets: self.list_toolsets || before.list_toolsets,
            cli: self.cli || before.cli,
            tui: self.tui || before.tui,
        }
    }
}

/// The commands of other releases that this one does not have.
const UNAVAILABLE_COMMANDS: &[&str] = &[
    "acp",
    "auth",
    "backup",
    "batch",
    "claw",
    "dashboard",
    "doctor",
    "dump",
    "fallback",
    "honcho",
    "import",
    "logs",
    "mcp",
    "memory",
    "plugins",
    "profile",
    "setup",
    "skills",
    "tools",
    "uninstall",
    "whatsapp",
];

/// Returns the message for an unknown command: how to ask a question, or that the command is not available.
pub(crate) fn unknown_command(error: &clap::Error, first: Option<&str>) -> Option<String> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    // For subcommands clap's own message is better.
    if first != Some(word.as_str()) {
        return None;
    }
    if UNAVAILABLE_COMMANDS.contains(&word.as_str()) {
        return Some(format!(
            "'hermes {word}' is not available in this release; `hermes --help` lists what is"
        ));
    }
    let near = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(names)) => names.first().cloned(),
        Some(ContextValue::String(name)) => Some(name.clone()),
        _ => None,
    };
    let near = near.map(|name| format!("; did you mean 'hermes {name}'?")).unwrap_or_default();
    Some(format!(
        "unknown command '{word}'{near}\nTo ask something: hermes -q '{word}'\n\n\
         Usage: hermes [OPTIONS] [COMMAND]\nFor more information, try '--help'."
    ))
}

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct LoginArguments {
    /// nous, openai-codex or copilot
    #[arg(long, default_value = "nous")]
    pub(crate) provider: String,
    /// Nous: the portal to sign in at
    #[arg(long, value_name = "URL")]
    pub(crate) portal_url: Option<String>,
    /// Nous: where models answer
    #[arg(long, value_name = "URL")]
    pub(crate) inference_url: Option<String>,
    /// Nous: the id of the client
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// Nous: what is asked for
    #[arg(long)]
    pub(crate) scope: Option<String>,
    /// Only print the address; otherwise it is opened in a browser where there is a display
    #[arg(long)]
    pub(crate) no_browser: bool,
    /// Seconds to wait for the confirmation
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout: Option<u64>,
    /// Nous: certificates to believe
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_bundle: Option<std::path::PathBuf>,
    /// Nous: believe any certificate
    #[arg(long)]
    pub(crate) insecure: bool,
}

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct SendArguments {
    /// Target and message; with --to, only the message. Without a message, standard input
    pub(crate) words: Vec<String>,
    /// A platform, platform:ID or platform:#name
    #[arg(short = 't', long, value_name = "TARGET")]
    pub(crate) to: Option<String>,
    /// Read the message from a file
    #[arg(short, long)]
    pub(crate) file: Option<std::path::PathBuf>,
    /// A line before the message
    #[arg(short, long, value_name = "LINE")]
    pub(crate) subject: Option<String>,
    /// List the chats that are known
    #[arg(short, long)]
    pub(crate) list: bool,
    /// Print nothing when it was sent
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show what is configured; keys are masked
    Show,
    /// Open config.yaml in $EDITOR
    Edit,
    /// Set a value; secrets go to .env, the rest to config.yaml
    Set {
        /// A dotted path such as model.default, or a variable such as OPENROUTER_API_KEY
        key: Option<String>,
        #[arg(allow_hyphen_values = true)]
        value: Option<String>,
    },
    /// Print the value in force
    Get { key: String },
    /// Remove a value from config.yaml
    Unset { key: String },
    /// Print where config.yaml is
    Path,
    /// Print where .env is
    EnvPath,
    /// Look for mistakes and for options that are new
    Check,
    /// Bring config.yaml up to the current version, keeping comments and a copy
    Migrate {
        /// Only show what would change
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// The newest conversations
    List {
        /// Only this source, such as cli or telegram
        #[arg(long)]
        source: Option<String>,
        #[arg(long, default_value_t = 20)]
        limit: usize,
    },
    /// Choose a conversation from a list and go on with it
    Browse {
        /// Only this source, such as cli or telegram
        #[arg(long)]
        source: Option<String>,
        #[arg(long, default_value_t = 50)]
        limit: usize,
    },
    /// Look for words in all conversations
    Search {
        #[arg(required = true, num_args = 1..)]
        words: Vec<String>,
        #[arg(long, default_value_t = 10)]
        limit: usize,
    },
    /// Write conversations as JSON lines; `-` is standard output
    Export {
        file: String,
        #[arg(long)]
        source: Option<String>,
        /// One session, by its id or the beginning of it
        #[arg(long)]
        session_id: Option<String>,
    },
    /// Remove a conversation
    Delete {
        id: String,
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
    },
    /// Remove ended conversations that began long ago
    Prune {
        /// Days
        #[arg(long, default_value_t = 90)]
        older_than: u32,
        #[arg(long)]
        source: Option<String>,
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
    },
    /// Give a conversation a title
    Rename {
        id: String,
        #[arg(required = true, num_args = 1..)]
        title: Vec<String>,
    },
    /// Totals
    Stats,
}

impl Default for SessionsCommand {
    fn default() -> Self {
        Self::List { source: None, limit: 20 }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum GatewayCommand {
    /// Run in the foreground
    Run {
        /// Print what happens
        #[arg(short, long)]
        verbose: bool,
        /// Take the place of a gateway that is running
        #[arg(long)]
        replace: bool,
    },
    /// Whether it runs, how it is, and what waits
    Status {
        /// With the last lines of the log
        #[arg(long)]
        deep: bool,
        /// The service of the system instead of the user's
        #[arg(long)]
        system: bool,
    },
    /// Choose what the gateway serves
    Setup(GatewaySetupArguments),
    /// Have it run as a service
    Install {
        /// Write the definition again even if it is up to date
        #[arg(long)]
        force: bool,
        /// For the machine, from boot on; needs root
        #[arg(long)]
        system: bool,
        /// With --system: whom it runs as
        #[arg(long, value_name = "USER", requires = "system")]
        run_as_user: Option<String>,
    },
    /// Remove the service; the home stays
    Uninstall {
        /// The service of the system instead of the user's
        #[arg(long)]
        system: bool,
    },
    /// Start the service
    Start {
        /// The service of the system instead of the user's
        #[arg(long)]
        system: bool,
    },
    /// Stop the service, and a gateway of this home that was started by hand
    Stop {
        /// The service of the system instead of the user's
        #[arg(long)]
        system: bool,
    },
    /// Restart the service; without one, run another gateway in the foreground
    Restart {
        /// The service of the system instead of the user's
        #[arg(long)]
        system: bool,
    },
    /// Let running turns end, take no new ones, then stop
    Drain,
}

/// Without flags, questions are asked.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct GatewaySetupArguments {
    /// Set up this platform: telegram, discord, slack, webhook
    #[arg(conflicts_with = "api_server")]
    pub(crate) platform: Option<String>,
    /// Answer a question of the platform, as in TELEGRAM_BOT_TOKEN=…; `-` as the value reads it from standard input
    #[arg(long = "set", value_name = "NAME=VALUE", requires = "platform")]
    pub(crate) values: Vec<String>,
    /// Set up the OpenAI-compatible API server
    #[arg(long)]
    pub(crate) api_server: bool,
    /// The port of the API server
    #[arg(long, requires = "api_server", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
    /// The key its callers must send; without it, the present one, or a random one
    #[arg(long, requires = "api_server")]
    pub(crate) key: Option<String>,
    /// Install the service and start it afterwards
    #[arg(long)]
    pub(crate) service: bool,
    /// Ask nothing: what is not said stays, or is the default
    #[arg(short, long)]
    pub(crate) yes: bool,
}

impl Default for GatewayCommand {
    fn default() -> Self {
        Self::Run { verbose: false, replace: false }
    }
}

#[derive(Debug, Default, Subcommand)]
pub(crate) enum PairingCommand {
    /// Who waits and who was let in
    #[default]
    List,
    /// Let somebody in by their code
    Approve { platform: String, code: String },
    /// Shut somebody out again
    Revoke { platform: String, user_id: String },
    /// Forget everybody who waits
    ClearPending,
}

#[derive(Debug, Default, Subcommand)]
pub(crate) enum WebhookCommand {
    /// Add a route
    #[command(visible_alias = "add")]
    Subscribe {
        name: String,
        /// What the agent is told; {a.b} stands for a value of the event
        #[arg(long)]
        prompt: Option<String>,
        /// Events to take, separated by commas; without it, all
        #[arg(long)]
        events: Option<String>,
        #[arg(long)]
        description: Option<String>,
        /// Skills to follow, separated by commas
        #[arg(long)]
        skills: Option<String>,
        /// Where the answer goes: log, github_comment or a platform
        #[arg(long)]
        deliver: Option<String>,
        #[arg(long)]
        deliver_chat_id: Option<String>,
        /// The secret events are signed with; without it, a random one
        #[arg(long)]
        secret: Option<String>,
    },
    /// Show the routes
    #[command(visible_alias = "ls")]
    #[default]
    List,
    /// Remove a route
    #[command(visible_alias = "rm")]
    Remove { name: String },
    /// Send a signed test event to a route
    Test {
        name: String,
        /// The event, as JSON
        #[arg(long)]
        payload: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum CronCommand {
    /// The jobs
    List {
        /// Also those that rest or are over
        #[arg(long)]
        all: bool,
    },
    /// Schedule something
    #[command(alias = "add")]
    Create {
        /// `30m` or a date once; `every 2h` or `0 9 * * *` again and again
        schedule: String,
        /// What is to be done
        prompt: Vec<String>,
        #[command(flatten)]
        about: JobArguments,
        /// Skills to follow
        #[arg(long = "skill")]
        skills: Vec<String>,
    },
    /// Change a job
    Edit {
        /// The id, its beginning, or the name
        id: String,
        #[arg(long)]
        schedule: Option<String>,
        #[arg(long)]
        prompt: Option<String>,
        #[command(flatten)]
        about: JobArguments,
        /// Skills instead of those it has
        #[arg(long = "skill")]
        skills: Vec<String>,
        #[arg(long = "add-skill")]
        add_skills: Vec<String>,
        #[arg(long = "remove-skill")]
        remove_skills: Vec<String>,
        #[arg(long)]
        clear_skills: bool,
    },
    /// Let a job rest
    Pause { id: String },
    /// Let a job go on from now
    Resume { id: String },
    /// Make a job due at once
    Run { id: String },
    /// Remove a job; what it said is kept
    #[command(aliases = ["rm", "delete"])]
    Remove { id: String },
    /// Whether jobs will run, and which is next
    Status,
    /// Look once at what is due, and run it
    Tick,
    /// What became of each time a job was due
    #[command(alias = "history")]
    Runs {
        id: Option<String>,
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
        limit: u16,
    },
}

impl Default for CronCommand {
    fn default() -> Self {
        Self::List { all: false }
    }
}

/// What a job is besides its schedule and prompt.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct JobArguments {
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// local, origin, all, a platform, or platform:chat
    #[arg(long)]
    pub(crate) deliver: Option<String>,
    /// How often it runs; 0 is for ever
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) repeat: Option<i64>,
    /// The folder its tools start in
    #[arg(long, value_name = "FOLDER")]
    pub(crate) workdir: Option<std::path::PathBuf>,
    /// A file in scripts/ of the home that runs first; what it prints goes before the prompt
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<String>,
    /// Only run the script, and deliver what it prints
    #[arg(long, conflicts_with = "agent")]
    pub(crate) no_agent: bool,
    /// Ask the agent again, after --no-agent
    #[arg(long)]
    pub(crate) agent: bool,
}

#[derive(Debug, Default, Subcommand)]
pub(crate) enum DbCommand {
    /// Check the whole file; changes nothing
    #[default]
    Check,
    /// Copy the database while it is in use
    Backup { file: std::path::PathBuf },
    /// Save what can be read of a damaged database into a sound one
    Repair,
}

const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// Returns the text `version` and `--version` print.
pub(crate) fn version() -> String {
    format!("Hermes Agent {VERSION}")
}

/// Tells whether a word is a command.
pub(crate) fn is_command(word: &str) -> bool {
    Cli::command().get_subcommands().any(|command| command.get_name() == word)
}

pub(crate) fn completion(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "hermes", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}
