//! The commands of the always-on service: the gateway, who may talk to it, webhooks, scheduled jobs.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum GatewayCommand {
    /// Run in the foreground
    Run {
        /// Print log messages
        #[arg(short, long)]
        verbose: bool,
        /// Replace a running gateway
        #[arg(long)]
        replace: bool,
    },
    /// Show whether the gateway is running, its health and its queues
    Status {
        /// Include the last lines of the log
        #[arg(long)]
        deep: bool,
        /// Use the system service instead of the user service
        #[arg(long)]
        system: bool,
    },
    /// Set up platforms and the API server
    Setup(GatewaySetupArguments),
    /// Install the gateway as a service
    Install {
        /// Rewrite the service definition even if it is current
        #[arg(long)]
        force: bool,
        /// Install a system service that starts at boot (needs root)
        #[arg(long)]
        system: bool,
        /// With --system, the user to run as
        #[arg(long, value_name = "USER", requires = "system")]
        run_as_user: Option<String>,
    },
    /// Remove the service; keeps the home folder
    Uninstall {
        /// Use the system service instead of the user service
        #[arg(long)]
        system: bool,
    },
    /// Start the service
    Start {
        /// Use the system service instead of the user service
        #[arg(long)]
        system: bool,
    },
    /// Stop the service, and any gateway of this home started by hand
    Stop {
        /// Use the system service instead of the user service
        #[arg(long)]
        system: bool,
    },
    /// Restart the service, or run a gateway in the foreground if none is installed
    Restart {
        /// Use the system service instead of the user service
        #[arg(long)]
        system: bool,
    },
    /// Finish running turns, accept no new ones, then stop
    Drain,
}

/// Returns the help of the argument that selects what to set up.
fn setup_platforms() -> String {
    let names: Vec<&str> = hermes_channels::PLATFORMS.iter().map(|platform| platform.name).collect();
    format!("Set up this platform: {}, webhook", names.join(", "))
}

/// Without flags, questions are asked.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct GatewaySetupArguments {
    #[arg(conflicts_with = "api_server", help = setup_platforms())]
    pub(crate) platform: Option<String>,
    /// Set a platform variable, as in TELEGRAM_BOT_TOKEN=…; the value `-` is read from standard input
    #[arg(long = "set", value_name = "NAME=VALUE", requires = "platform")]
    pub(crate) values: Vec<String>,
    /// Set up the OpenAI-compatible API server
    #[arg(long)]
    pub(crate) api_server: bool,
    /// Port of the API server
    #[arg(long, requires = "api_server", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
    /// API key for clients [default: the current one, or a random one]
    #[arg(long, requires = "api_server")]
    pub(crate) key: Option<String>,
    /// Install and start the service afterwards
    #[arg(long)]
    pub(crate) service: bool,
    /// Don't prompt; keep current values or use defaults
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
    /// List pending and approved users
    #[default]
    List,
    /// Approve a user by pairing code
    Approve { platform: String, code: String },
    /// Revoke a user's access
    Revoke { platform: String, user_id: String },
    /// Remove all pending users
    ClearPending,
}

#[derive(Debug, Default, Subcommand)]
pub(crate) enum WebhookCommand {
    /// Add a route
    #[command(visible_alias = "add")]
    Subscribe {
        name: String,
        /// Prompt for the agent; {a.b} is replaced by a value of the event
        #[arg(long)]
        prompt: Option<String>,
        /// Comma-separated events to accept [default: all]
        #[arg(long)]
        events: Option<String>,
        #[arg(long)]
        description: Option<String>,
        /// Comma-separated skills to use
        #[arg(long)]
        skills: Option<String>,
        /// Where to send the answer: log, github_comment or a platform
        #[arg(long)]
        deliver: Option<String>,
        #[arg(long)]
        deliver_chat_id: Option<String>,
        /// Secret that signs the events [default: a random one]
        #[arg(long)]
        secret: Option<String>,
    },
    /// List the routes
    #[command(visible_alias = "ls")]
    #[default]
    List,
    /// Remove a route
    #[command(visible_alias = "rm")]
    Remove { name: String },
    /// Send a signed test event to a route
    Test {
        name: String,
        /// Event payload as JSON
        #[arg(long)]
        payload: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum CronCommand {
    /// List the jobs
    List {
        /// Include paused and finished jobs
        #[arg(long)]
        all: bool,
    },
    /// Create a job
    #[command(alias = "add")]
    Create {
        /// `30m` or a date (once); `every 2h` or `0 9 * * *` (repeating)
        schedule: String,
        /// What the agent is asked to do
        prompt: Vec<String>,
        #[command(flatten)]
        about: JobArguments,
        /// Skills to use
        #[arg(long = "skill")]
        skills: Vec<String>,
    },
    /// Change a job
    Edit {
        /// Job id, id prefix or name
        id: String,
        #[arg(long)]
        schedule: Option<String>,
        #[arg(long)]
        prompt: Option<String>,
        #[command(flatten)]
        about: JobArguments,
        /// Replace the job's skills
        #[arg(long = "skill")]
        skills: Vec<String>,
        #[arg(long = "add-skill")]
        add_skills: Vec<String>,
        #[arg(long = "remove-skill")]
        remove_skills: Vec<String>,
        #[arg(long)]
        clear_skills: bool,
    },
    /// Pause a job
    Pause { id: String },
    /// Resume a job
    Resume { id: String },
    /// Run a job at the next scheduler tick
    Run { id: String },
    /// Remove a job; keeps its output
    #[command(aliases = ["rm", "delete"])]
    Remove { id: String },
    /// Show whether jobs will run, and the next one
    Status,
    /// Run due jobs once and exit
    Tick,
    /// List past runs of jobs
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
    /// Number of runs; 0 means unlimited
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) repeat: Option<i64>,
    /// Working directory of the tools
    #[arg(long, value_name = "FOLDER")]
    pub(crate) workdir: Option<std::path::PathBuf>,
    /// Script in scripts/ of the home that runs first; its output is prepended to the prompt
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<String>,
    /// Run only the script and deliver its output
    #[arg(long, conflicts_with = "agent")]
    pub(crate) no_agent: bool,
    /// Use the agent again after --no-agent
    #[arg(long)]
    pub(crate) agent: bool,
}
