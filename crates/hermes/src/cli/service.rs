//! The commands of the always-on service: the gateway, who may talk to it, webhooks, scheduled jobs.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum GatewayCommand {
    /// Run in the foreground
    #[command(after_help = "Examples:\n  hermes gateway run\n  hermes gateway run --replace -v")]
    Run(GatewayRunArguments),
    /// Show whether the gateway is running, its health and its queues
    #[command(
        after_help = "Examples:\n  hermes gateway status --deep\n  hermes gateway status --platform telegram"
    )]
    Status(GatewayStatusArguments),
    /// List the gateways of all profiles
    #[command(visible_alias = "ls", after_help = "Example: hermes gateway list")]
    List,
    /// Set up platforms and the API server
    #[command(after_help = "Examples:\n  hermes gateway setup telegram\n  \
                            hermes gateway setup telegram --set TELEGRAM_BOT_TOKEN=- --yes < token\n  \
                            hermes gateway setup --api-server --service")]
    Setup(GatewaySetupArguments),
    /// Install the gateway as a service
    #[command(after_help = "Examples:\n  hermes gateway install --start-now\n  \
                            sudo hermes gateway install --system --run-as-user ann")]
    Install(GatewayInstallArguments),
    /// Remove the service; keeps the home folder
    #[command(after_help = "Example: hermes gateway uninstall")]
    Uninstall {
        /// Use the system service instead of the user service
        #[arg(long)]
        system: bool,
    },
    /// Start the service
    #[command(after_help = "Example: hermes gateway start")]
    Start(GatewayServiceArguments),
    /// Stop the service, and any gateway of this home started by hand
    #[command(after_help = "Examples:\n  hermes gateway stop\n  hermes gateway stop --all")]
    Stop(GatewayServiceArguments),
    /// Restart the service, or run a gateway in the foreground if none is installed
    #[command(after_help = "Examples:\n  hermes gateway restart\n  hermes gateway restart --all")]
    Restart(GatewayServiceArguments),
    /// Finish running turns, accept no new ones, then stop
    #[command(after_help = "Example: hermes gateway drain")]
    Drain,
}

#[derive(Debug, Clone, Copy, Default, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "one field per flag")]
pub(crate) struct GatewayRunArguments {
    /// Print log messages
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Print only errors
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Replace a running gateway
    #[arg(long, visible_alias = "force")]
    pub(crate) replace: bool,
    /// For a supervisor that starts Hermes again: a restart asked for in a chat exits with code 75
    #[arg(long)]
    pub(crate) external_supervisor: bool,
}

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct GatewayStatusArguments {
    /// Include the last lines of the log
    #[arg(long)]
    pub(crate) deep: bool,
    /// Don't shorten lines of the service manager
    #[arg(short = 'l', long)]
    pub(crate) full: bool,
    /// Show only this platform's connection
    #[arg(long, value_name = "NAME")]
    pub(crate) platform: Option<String>,
    /// Use the system service instead of the user service
    #[arg(long)]
    pub(crate) system: bool,
}

#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct GatewayServiceArguments {
    /// Use the system service instead of the user service
    #[arg(long)]
    pub(crate) system: bool,
    /// Act on the gateways of all profiles
    #[arg(long, conflicts_with = "system")]
    pub(crate) all: bool,
}

#[derive(Debug, Clone, Default, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "one field per flag")]
pub(crate) struct GatewayInstallArguments {
    /// Rewrite the service definition even if it is current
    #[arg(long)]
    pub(crate) force: bool,
    /// Install a system service that starts at boot (needs root)
    #[arg(long)]
    pub(crate) system: bool,
    /// With --system, the user to run as
    #[arg(long, value_name = "USER", requires = "system")]
    pub(crate) run_as_user: Option<String>,
    /// Start the service after installing it
    #[arg(long)]
    pub(crate) start_now: bool,
    /// Don't start the service; this is the default
    #[arg(long, conflicts_with = "start_now")]
    pub(crate) no_start_now: bool,
    /// Start the service whenever the machine starts or you log in; this is the default
    #[arg(long)]
    pub(crate) start_on_login: bool,
    /// Start the service only with `hermes gateway start`
    #[arg(long, conflicts_with = "start_on_login")]
    pub(crate) no_start_on_login: bool,
}

/// Returns the help of the argument that selects what to set up.
fn setup_platforms() -> String {
    let names: Vec<&str> = hermes_channels::PLATFORMS.iter().map(|platform| platform.name).collect();
    format!("Set up this platform: {}, webhook", names.join(", "))
}

/// Without flags, questions are asked.
#[derive(Debug, Default, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "one field per flag")]
pub(crate) struct GatewaySetupArguments {
    #[arg(conflicts_with = "api_server", help = setup_platforms())]
    pub(crate) platform: Option<String>,
    /// Set a platform variable, as in TELEGRAM_BOT_TOKEN=…; the value `-` is read from standard input
    #[arg(long = "set", value_name = "NAME=VALUE", requires = "platform")]
    pub(crate) values: Vec<String>,
    /// Store the values without asking the platform whether they are right
    #[arg(long, requires = "platform")]
    pub(crate) no_check: bool,
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
        Self::Run(GatewayRunArguments::default())
    }
}

#[derive(Debug, Default, Subcommand)]
pub(crate) enum PairingCommand {
    /// List pending and approved users
    #[command(after_help = "Example: hermes pairing list")]
    #[default]
    List,
    /// Approve a user by pairing code
    #[command(after_help = "Examples:\n  hermes pairing approve telegram ABCD2345\n  \
                            hermes pairing approve slack ABCD2345 --person telegram:42")]
    Approve {
        /// Platform, such as telegram
        platform: String,
        /// Code that the user was given
        code: String,
        /// Link the account to a person: a name in `memory.people`, `owner`, or another account such as telegram:42
        #[arg(long, value_name = "NAME")]
        person: Option<String>,
    },
    /// Revoke a user's access
    #[command(after_help = "Example: hermes pairing revoke telegram 123456")]
    Revoke {
        /// Platform, such as telegram
        platform: String,
        /// Id of the user, as `hermes pairing` lists it
        user_id: String,
    },
    /// Remove all pending users
    #[command(after_help = "Example: hermes pairing clear-pending")]
    ClearPending,
}

#[derive(Debug, Default, Subcommand)]
pub(crate) enum WebhookCommand {
    /// Add a route, or change one
    #[command(
        visible_alias = "add",
        after_help = "Examples:\n  \
        hermes webhook subscribe deploys --prompt 'Deployed {app}. Check the logs' --deliver telegram\n  \
        hermes webhook subscribe alerts --prompt 'Alert: {title}' --deliver telegram --deliver-only"
    )]
    Subscribe(Box<SubscribeArguments>),
    /// List the routes
    #[command(visible_alias = "ls", after_help = "Example: hermes webhook list")]
    #[default]
    List,
    /// Remove a route
    #[command(visible_alias = "rm", after_help = "Example: hermes webhook remove deploys")]
    Remove {
        /// Name of the route
        name: String,
    },
    /// Send a signed test event to a route
    #[command(after_help = "Example: hermes webhook test deploys --payload '{\"app\": \"shop\"}'")]
    Test {
        /// Name of the route
        name: String,
        /// Event payload as JSON
        #[arg(long)]
        payload: Option<String>,
    },
}

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct SubscribeArguments {
    /// Name of the route, the end of its address
    pub(crate) name: String,
    /// Prompt for the agent; {a.b} is replaced by a value of the event
    #[arg(long)]
    pub(crate) prompt: Option<String>,
    /// Comma-separated events to accept [default: all]
    #[arg(long)]
    pub(crate) events: Option<String>,
    /// Text about the route, shown in lists
    #[arg(long)]
    pub(crate) description: Option<String>,
    /// Comma-separated skills to use
    #[arg(long)]
    pub(crate) skills: Option<String>,
    /// Where to send the answer: log, github_comment or a platform
    #[arg(long)]
    pub(crate) deliver: Option<String>,
    /// Chat to send the answer to [default: the platform's home channel]
    #[arg(long, value_name = "ID")]
    pub(crate) deliver_chat_id: Option<String>,
    /// Secret that signs the events [default: the present one, or a random one]
    #[arg(long)]
    pub(crate) secret: Option<String>,
    /// Send the filled-in prompt itself, without the agent
    #[arg(long, requires = "prompt", requires = "deliver")]
    pub(crate) deliver_only: bool,
    /// Script in scripts/ of the home that gets the event as JSON and prints what takes its place; nothing drops it
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CronCommand {
    /// List the jobs
    #[command(after_help = "Example: hermes cron list --all")]
    List {
        /// Include paused and finished jobs
        #[arg(long)]
        all: bool,
    },
    /// Create a job
    #[command(
        alias = "add",
        after_help = "Examples:\n  hermes cron create 'every 2h' 'Check the mail' --deliver telegram\n  hermes cron create '0 9 * * 1-5' 'Write the daily report' --skill report --name daily"
    )]
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
    #[command(after_help = "Example: hermes cron edit daily --schedule '0 8 * * *' --add-skill charts")]
    Edit {
        /// Job id, id prefix or name
        id: String,
        /// New schedule
        #[arg(long)]
        schedule: Option<String>,
        /// New prompt
        #[arg(long)]
        prompt: Option<String>,
        #[command(flatten)]
        about: JobArguments,
        /// Replace the job's skills
        #[arg(long = "skill")]
        skills: Vec<String>,
        /// Skill to add
        #[arg(long = "add-skill")]
        add_skills: Vec<String>,
        /// Skill to remove
        #[arg(long = "remove-skill")]
        remove_skills: Vec<String>,
        /// Remove all skills
        #[arg(long)]
        clear_skills: bool,
    },
    /// Pause a job
    #[command(after_help = "Example: hermes cron pause daily")]
    Pause {
        /// Job id, id prefix or name
        id: String,
    },
    /// Resume a job
    #[command(after_help = "Example: hermes cron resume daily")]
    Resume {
        /// Job id, id prefix or name
        id: String,
    },
    /// Run a job at the next scheduler tick
    #[command(after_help = "Example: hermes cron run daily")]
    Run {
        /// Job id, id prefix or name
        id: String,
    },
    /// Remove a job; keeps its output
    #[command(aliases = ["rm", "delete"], after_help = "Example: hermes cron remove daily")]
    Remove {
        /// Job id, id prefix or name
        id: String,
    },
    /// Show whether jobs will run, and the next one
    #[command(after_help = "Example: hermes cron status")]
    Status,
    /// Run due jobs once and exit
    #[command(after_help = "Example: hermes cron tick")]
    Tick,
    /// List past runs of jobs
    #[command(alias = "history", after_help = "Example: hermes cron runs daily --limit 5")]
    Runs {
        /// Job id, id prefix or name [default: all jobs]
        id: Option<String>,
        /// Number of runs
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
    /// Name of the job
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
