// table: exempt from the length limit
//! Every environment variable Hermes knows, in one table.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

use crate::keys::Support;
use crate::provider::registry::REGISTRY;

/// A variable, its purpose, and whether its value must never be shown.
#[derive(Debug, Clone)]
pub struct EnvVariable {
    pub name: &'static str,
    pub about: Cow<'static, str>,
    /// The value that applies when the variable is unset; empty when there is none.
    pub default: &'static str,
    pub secret: bool,
    pub support: Support,
}

impl EnvVariable {
    /// Marks a variable that other releases use and this one does not.
    const fn kept(mut self) -> Self {
        self.support = Support::Kept;
        self
    }
}

/// Finds a documented variable by its exact name.
pub fn find(name: &str) -> Option<&'static EnvVariable> {
    static BY_NAME: LazyLock<HashMap<&str, &EnvVariable>> =
        LazyLock::new(|| all().iter().map(|variable| (variable.name, variable)).collect());
    BY_NAME.get(name).copied()
}

/// Returns every documented variable: those of the model providers, then the table's.
pub fn all() -> &'static [EnvVariable] {
    static ALL: LazyLock<Vec<EnvVariable>> = LazyLock::new(|| {
        let mut rows = of_providers();
        rows.extend_from_slice(VARIABLES);
        rows
    });
    &ALL
}

/// Returns the variables with the keys and addresses of model providers. A row of the table takes the place of one
/// made here.
fn of_providers() -> Vec<EnvVariable> {
    let mut rows: Vec<EnvVariable> = Vec::new();
    for provider in REGISTRY {
        let keys = provider.keys.iter().map(|name| EnvVariable {
            name,
            about: Cow::Owned(format!("Key for {}", provider.label)),
            default: "",
            secret: true,
            support: Support::ActedOn,
        });
        let address = Some(provider.base_variable).filter(|name| !name.is_empty()).map(|name| EnvVariable {
            name,
            about: Cow::Owned(format!("{} endpoint", provider.label)),
            default: provider.base_url,
            secret: false,
            support: Support::ActedOn,
        });
        for row in keys.chain(address) {
            let is_known = |other: &EnvVariable| other.name == row.name;
            if !VARIABLES.iter().any(is_known) && !rows.iter().any(is_known) {
                rows.push(row);
            }
        }
    }
    rows
}

/// The prefix that passes a variable to child processes of the terminal, unfiltered and under its unprefixed name.
pub const FORCE_PREFIX: &str = "_HERMES_FORCE_";

const fn plain(name: &'static str, default: &'static str, about: &'static str) -> EnvVariable {
    EnvVariable { name, about: Cow::Borrowed(about), default, secret: false, support: Support::ActedOn }
}

const fn secret(name: &'static str, about: &'static str) -> EnvVariable {
    EnvVariable { name, about: Cow::Borrowed(about), default: "", secret: true, support: Support::ActedOn }
}

/// The variables that no provider row stands for.
#[rustfmt::skip]
static VARIABLES: &[EnvVariable] = &[
    // Model providers.
    secret("OPENAI_API_KEY", "Key for OpenAI or a custom OpenAI-compatible endpoint"),
    plain("OPENAI_BASE_URL", "", "Endpoint of a custom OpenAI-compatible server"),
    secret("ANTHROPIC_TOKEN", "OAuth token that takes the place of the Anthropic key"),
    secret("CLAUDE_CODE_OAUTH_TOKEN", "OAuth token of a Claude subscription"),
    secret("AWS_ACCESS_KEY_ID", "AWS credential for Bedrock: key id"),
    secret("AWS_SECRET_ACCESS_KEY", "AWS credential for Bedrock: secret"),
    secret("AWS_SESSION_TOKEN", "AWS credential for Bedrock: session token"),
    plain("AWS_DEFAULT_REGION", "", "AWS region when AWS_REGION is unset"),
    plain("AWS_REGION", "", "AWS region for Bedrock"),
    plain("AWS_PROFILE", "", "Named AWS profile for Bedrock"),
    plain("NOUS_BASE_URL", "", "Nous endpoint"),
    secret("LM_API_KEY", "Key for LM Studio"),
    secret("COPILOT_GITHUB_TOKEN", "GitHub token for Copilot and the Skills Hub (first one set wins)"),
    secret("GH_TOKEN", "GitHub token for Copilot and the Skills Hub (first one set wins)"),
    secret("GITHUB_TOKEN", "GitHub token for Copilot and the Skills Hub (first one set wins)"),
    plain("HERMES_COPILOT_ACP_COMMAND", "copilot", "Command that starts the Copilot agent").kept(),
    plain("COPILOT_CLI_PATH", "", "Older name of HERMES_COPILOT_ACP_COMMAND").kept(),
    plain("HERMES_COPILOT_ACP_ARGS", "--acp --stdio", "Arguments for the Copilot agent").kept(),
    plain("HERMES_MODEL", "", "Default model for gateway and cron"),
    plain("LLM_MODEL", "", "Default model for gateway and cron when HERMES_MODEL is unset"),
    plain("HERMES_INFERENCE_MODEL", "", "Default model for gateway and cron, before HERMES_MODEL"),
    // Provider sign-in and requests.
    plain("HERMES_INFERENCE_PROVIDER", "auto", "Provider when config.yaml names none"),
    plain("HERMES_PORTAL_BASE_URL", "", "Nous Portal address"),
    plain("NOUS_PORTAL_BASE_URL", "", "Nous Portal address"),
    plain("HERMES_NOUS_MIN_KEY_TTL_SECONDS", "1800", "Least remaining life of a Nous key before a new one is fetched (at least 60)"),
    plain("HERMES_NOUS_TIMEOUT_SECONDS", "15", "Time limit for Nous sign-in calls"),
    plain("HERMES_CA_BUNDLE", "", "Certificate file to trust instead of the system roots"),
    plain("SSL_CERT_FILE", "", "Certificate file to trust instead of the system roots"),
    plain("REQUESTS_CA_BUNDLE", "", "Certificate file to trust instead of the system roots"),
    plain("HERMES_CODEX_REFRESH_TIMEOUT_SECONDS", "20", "Time limit for refreshing a Codex token"),
    plain("HERMES_OAUTH_TRACE", "false", "Log sign-in steps, without tokens").kept(),
    plain("HERMES_OAUTH_FILE", "", "File that holds sign-in state").kept(),
    plain("HERMES_DUMP_REQUESTS", "false", "Write each model request as JSON into sessions/"),
    plain("HERMES_DUMP_REQUEST_STDOUT", "false", "Show each model request on the terminal"),
    plain("HERMES_API_TIMEOUT", "1800", "Seconds a model call may take"),
    plain("HERMES_STREAM_READ_TIMEOUT", "60", "Seconds without a byte before a stream is given up"),
    plain("HERMES_STREAM_STALE_TIMEOUT", "180", "Seconds without progress before a stream is given up"),
    plain("HERMES_STREAM_RETRIES", "2", "How often a broken stream is tried again"),
    // Tools.
    secret("FIRECRAWL_API_KEY", "Key for Firecrawl web search"),
    plain("FIRECRAWL_API_URL", "", "Address of a self-hosted Firecrawl"),
    secret("PARALLEL_API_KEY", "Key for Parallel web search"),
    plain("PARALLEL_SEARCH_MODE", "agentic", "Parallel search mode: agentic, fast or one-shot"),
    secret("TAVILY_API_KEY", "Key for Tavily web search"),
    secret("EXA_API_KEY", "Key for Exa web search"),
    secret("BRAVE_SEARCH_API_KEY", "Key for Brave web search"),
    plain("SEARXNG_URL", "", "Address of a SearXNG instance, unless web.searxng_url is set"),
    plain("HERMES_ALLOW_PRIVATE_URLS", "", "Like security.allow_private_urls"),
    secret("BROWSERBASE_API_KEY", "Key for Browserbase cloud browsers"),
    plain("BROWSERBASE_PROJECT_ID", "", "Browserbase project"),
    plain("BROWSERBASE_PROXIES", "true", "Route Browserbase through proxies"),
    plain("BROWSERBASE_ADVANCED_STEALTH", "false", "Browserbase stealth mode"),
    plain("BROWSERBASE_KEEP_ALIVE", "true", "Keep Browserbase sessions between calls"),
    plain("BROWSERBASE_SESSION_TIMEOUT", "", "Life of a Browserbase session"),
    secret("BROWSER_USE_API_KEY", "Key for Browser Use"),
    plain("BROWSER_CDP_URL", "", "DevTools address of a running browser"),
    plain("BROWSER_INACTIVITY_TIMEOUT", "120", "Seconds before an idle browser is closed"),
    secret("FAL_KEY", "Key for image generation"),
    secret("VOICE_TOOLS_OPENAI_KEY", "OpenAI key for speech, before OPENAI_API_KEY"),
    secret("GROQ_API_KEY", "Key for Groq speech recognition"),
    plain("GROQ_BASE_URL", "", "Groq endpoint"),
    plain("STT_GROQ_MODEL", "whisper-large-v3-turbo", "Groq speech model"),
    plain("STT_OPENAI_MODEL", "whisper-1", "OpenAI speech model"),
    plain("STT_OPENAI_BASE_URL", "", "OpenAI speech endpoint"),
    plain("HERMES_LOCAL_STT_COMMAND", "", "Command for local speech recognition, with {input_path} {output_dir} {language} {model}"),
    plain("HERMES_LOCAL_STT_LANGUAGE", "en", "Language for local speech recognition"),
    secret("ELEVENLABS_API_KEY", "Key for ElevenLabs voices"),
    plain("GITHUB_APP_ID", "", "GitHub App for the Skills Hub: id"),
    plain("GITHUB_APP_PRIVATE_KEY_PATH", "", "GitHub App for the Skills Hub: key file"),
    plain("GITHUB_APP_INSTALLATION_ID", "", "GitHub App for the Skills Hub: installation"),
    secret("HONCHO_API_KEY", "Key for Honcho").kept(),
    plain("HONCHO_BASE_URL", "", "Honcho address").kept(),
    plain("HONCHO_ENVIRONMENT", "", "Honcho environment").kept(),
    secret("TINKER_API_KEY", "Key for Tinker training").kept(),
    secret("WANDB_API_KEY", "Key for Weights & Biases").kept(),
    secret("DAYTONA_API_KEY", "Key for Daytona sandboxes"),
    plain("DAYTONA_API_URL", "https://app.daytona.io/api", "Daytona endpoint"),
    secret("MODAL_TOKEN_ID", "Id of the token for your account with Modal"),
    secret("MODAL_TOKEN_SECRET", "Secret of the token for your account with Modal"),
    plain("MODAL_GATEWAY_URL", "", "Address of the gateway that manages Modal sandboxes"),
    secret("TOOL_GATEWAY_USER_TOKEN", "Token for that gateway instead of the Nous sign-in"),
    plain("TIRITH_ENABLED", "", "Overrides security.tirith_enabled"),
    plain("TIRITH_BIN", "", "Overrides security.tirith_path"),
    plain("TIRITH_TIMEOUT", "", "Overrides security.tirith_timeout"),
    plain("TIRITH_FAIL_OPEN", "", "Overrides security.tirith_fail_open"),
    secret("HASS_TOKEN", "Home Assistant token").kept(),
    plain("HASS_URL", "http://homeassistant.local:8123", "Home Assistant address").kept(),
    // Terminal.
    plain("TERMINAL_ENV", "local", "Where commands run"),
    plain("TERMINAL_DOCKER_IMAGE", "python:3.11-slim", "Image for Docker"),
    plain("TERMINAL_SINGULARITY_IMAGE", "docker://python:3.11-slim", "Image for Singularity"),
    plain("TERMINAL_MODAL_IMAGE", "python:3.11-slim", "Image for Modal"),
    plain("TERMINAL_MODAL_MODE", "auto", "How Modal is reached: auto, direct (your own account) or managed (the gateway)"),
    plain("TERMINAL_DAYTONA_IMAGE", "python:3.11-slim", "Image for Daytona"),
    plain("TERMINAL_DOCKER_FORWARD_ENV", "", "Names copied into the container, as a JSON array or comma list"),
    plain("TERMINAL_DOCKER_VOLUMES", "", "Volumes for the container, as a JSON array or comma list"),
    plain("TERMINAL_DOCKER_MOUNT_CWD_TO_WORKSPACE", "false", "Bind the launch folder at /workspace"),
    plain("TERMINAL_TIMEOUT", "180", "Seconds per command"),
    plain("TERMINAL_LIFETIME_SECONDS", "300", "Idle life of an environment"),
    plain("TERMINAL_CWD", "", "Working folder of commands"),
    plain("TERMINAL_SSH_HOST", "", "SSH host"),
    plain("TERMINAL_SSH_USER", "", "SSH user"),
    plain("TERMINAL_SSH_PORT", "22", "SSH port"),
    plain("TERMINAL_SSH_KEY", "", "SSH key file"),
    plain("TERMINAL_SSH_PERSISTENT", "", "Keep one remote shell; follows TERMINAL_PERSISTENT_SHELL").kept(),
    plain("TERMINAL_CONTAINER_CPU", "1", "Processor limit of a container"),
    plain("TERMINAL_CONTAINER_MEMORY", "5120", "Memory limit of a container in MB"),
    plain("TERMINAL_CONTAINER_DISK", "51200", "Disk limit of a container in MB"),
    plain("TERMINAL_CONTAINER_PERSISTENT", "true", "Keep a container between sessions"),
    plain("TERMINAL_SCRATCH_DIR", "", "Folder for Singularity images and overlays"),
    plain("TERMINAL_DISK_WARNING_GB", "500", "Size of Singularity's scratch folder that is worth a warning"),
    plain("TERMINAL_SANDBOX_DIR", "", "Folder for container state"),
    plain("TERMINAL_PERSISTENT_SHELL", "true", "One long-lived shell for remote backends"),
    plain("TERMINAL_LOCAL_PERSISTENT", "false", "One long-lived shell for local commands").kept(),
    secret("SUDO_PASSWORD", "Password given to sudo"),
    plain("HERMES_WRITE_SAFE_ROOT", "", "The only folder tree files may be written in"),
    plain("HERMES_CHECKPOINT_TIMEOUT", "30", "Seconds for one checkpoint, 10 to 60").kept(),
    plain("HERMES_GIT_BASH_PATH", "", "Shell to use on Windows").kept(),
    // Messaging.
    plain("TELEGRAM_ALLOWED_USERS", "", "Telegram: users who may talk to the agent, comma separated"),
    plain("TELEGRAM_ALLOW_ALL_USERS", "false", "Telegram: let everybody in"),
    plain("TELEGRAM_HOME_CHANNEL", "", "Telegram: where unprompted messages go"),
    plain("TELEGRAM_HOME_CHANNEL_NAME", "", "Telegram: name of the home channel").kept(),
    plain("DISCORD_ALLOWED_USERS", "", "Discord: users who may talk to the agent, comma separated"),
    plain("DISCORD_ALLOW_ALL_USERS", "false", "Discord: let everybody in"),
    plain("DISCORD_HOME_CHANNEL", "", "Discord: where unprompted messages go"),
    plain("DISCORD_HOME_CHANNEL_NAME", "", "Discord: name of the home channel").kept(),
    plain("SLACK_ALLOWED_USERS", "", "Slack: users who may talk to the agent, comma separated"),
    plain("SLACK_ALLOW_ALL_USERS", "false", "Slack: let everybody in"),
    plain("SLACK_HOME_CHANNEL", "", "Slack: where unprompted messages go"),
    plain("SLACK_HOME_CHANNEL_NAME", "", "Slack: name of the home channel").kept(),
    plain("WHATSAPP_ALLOWED_USERS", "", "WhatsApp: users who may talk to the agent, comma separated").kept(),
    plain("WHATSAPP_ALLOW_ALL_USERS", "false", "WhatsApp: let everybody in").kept(),
    plain("WHATSAPP_HOME_CHANNEL", "", "WhatsApp: where unprompted messages go").kept(),
    plain("WHATSAPP_HOME_CHANNEL_NAME", "", "WhatsApp: name of the home channel").kept(),
    plain("SIGNAL_ALLOWED_USERS", "", "Signal: users who may talk to the agent, comma separated").kept(),
    plain("SIGNAL_ALLOW_ALL_USERS", "false", "Signal: let everybody in").kept(),
    plain("SIGNAL_HOME_CHANNEL", "", "Signal: where unprompted messages go").kept(),
    plain("SIGNAL_HOME_CHANNEL_NAME", "", "Signal: name of the home channel").kept(),
    plain("SMS_ALLOWED_USERS", "", "SMS: users who may talk to the agent, comma separated").kept(),
    plain("SMS_ALLOW_ALL_USERS", "false", "SMS: let everybody in").kept(),
    plain("SMS_HOME_CHANNEL", "", "SMS: where unprompted messages go").kept(),
    plain("SMS_HOME_CHANNEL_NAME", "", "SMS: name of the home channel").kept(),
    plain("MATTERMOST_ALLOWED_USERS", "", "Mattermost: users who may talk to the agent, comma separated").kept(),
    plain("MATTERMOST_ALLOW_ALL_USERS", "false", "Mattermost: let everybody in").kept(),
    plain("MATTERMOST_HOME_CHANNEL", "", "Mattermost: where unprompted messages go").kept(),
    plain("MATTERMOST_HOME_CHANNEL_NAME", "", "Mattermost: name of the home channel").kept(),
    secret("TELEGRAM_BOT_TOKEN", "Telegram bot token"),
    plain("TELEGRAM_REPLY_TO_MODE", "", "Telegram: which parts quote the question"),
    plain("TELEGRAM_REQUIRE_MENTION", "false", "Telegram: answer in groups only when mentioned"),
    plain("TELEGRAM_MENTION_PATTERNS", "", "Telegram: patterns that count as a mention"),
    plain("TELEGRAM_FREE_RESPONSE_CHATS", "", "Telegram: groups where no mention is needed"),
    plain("TELEGRAM_ALLOWED_CHATS", "", "Telegram: the only groups it answers in"),
    plain("TELEGRAM_ALLOWED_TOPICS", "", "Telegram: the only topics it answers in"),
    plain("TELEGRAM_IGNORED_THREADS", "", "Telegram: topics it does not answer in"),
    plain("TELEGRAM_ALLOW_BOTS", "none", "Telegram: messages of other bots: none, mentions or all"),
    plain("TELEGRAM_REACTIONS", "false", "Telegram: mark messages as seen and answered"),
    plain("TELEGRAM_FALLBACK_IPS", "", "Telegram: addresses to try when its own cannot be reached"),
    plain("TELEGRAM_PROXY", "", "Telegram: proxy for its calls"),
    plain("TELEGRAM_WEBHOOK_URL", "", "Telegram: public address for a webhook instead of polling"),
    plain("TELEGRAM_WEBHOOK_PORT", "", "Telegram: port the webhook listens on"),
    secret("TELEGRAM_WEBHOOK_SECRET", "Telegram: token its webhook calls carry"),
    plain("HERMES_TELEGRAM_TEXT_BATCH_DELAY_SECONDS", "0.6", "Telegram: wait for more text before answering"),
    plain("HERMES_TELEGRAM_MEDIA_BATCH_DELAY_SECONDS", "0.8", "Telegram: wait for more media before answering"),
    secret("DISCORD_BOT_TOKEN", "Discord bot token"),
    plain("DISCORD_REQUIRE_MENTION", "true", "Discord: answer in channels only when mentioned"),
    plain("DISCORD_FREE_RESPONSE_CHANNELS", "", "Discord: channels where no mention is needed"),
    plain("DISCORD_AUTO_THREAD", "true", "Discord: open a thread per conversation"),
    plain("DISCORD_THREAD_REQUIRE_MENTION", "false", "Discord: a mention is needed in threads, too"),
    plain("DISCORD_ALLOWED_CHANNELS", "", "Discord: the only channels it answers in"),
    plain("DISCORD_IGNORED_CHANNELS", "", "Discord: channels it does not answer in"),
    plain("DISCORD_NO_THREAD_CHANNELS", "", "Discord: channels where no thread is opened"),
    plain("DISCORD_IGNORE_NO_MENTION", "true", "Discord: leave messages alone that mention others only"),
    plain("DISCORD_ALLOW_BOTS", "none", "Discord: messages of other bots: none, mentions or all"),
    plain("DISCORD_REACTIONS", "true", "Discord: mark messages as seen and answered"),
    plain("DISCORD_REPLY_TO_MODE", "first", "Discord: which parts refer to the question"),
    plain("DISCORD_ALLOW_MENTION_EVERYONE", "false", "Discord: answers may mention everyone").kept(),
    plain("DISCORD_ALLOW_MENTION_ROLES", "false", "Discord: answers may mention roles").kept(),
    plain("DISCORD_ALLOW_MENTION_USERS", "true", "Discord: answers may mention people").kept(),
    secret("SLACK_BOT_TOKEN", "Slack bot token"),
    secret("SLACK_APP_TOKEN", "Slack app token"),
    plain("SLACK_REQUIRE_MENTION", "true", "Slack: answer in channels only when mentioned"),
    plain("SLACK_STRICT_MENTION", "false", "Slack: a mention is needed in known threads, too"),
    plain("SLACK_FREE_RESPONSE_CHANNELS", "", "Slack: channels where no mention is needed"),
    plain("SLACK_ALLOWED_CHANNELS", "", "Slack: the only channels it answers in"),
    plain("SLACK_MENTION_PATTERNS", "", "Slack: patterns that count as a mention"),
    plain("SLACK_ALLOW_BOTS", "none", "Slack: messages of other bots: none, mentions or all"),
    plain("SLACK_REACTIONS", "true", "Slack: mark messages as seen and answered"),
    plain("WHATSAPP_ENABLED", "false", "Turn WhatsApp on").kept(),
    plain("WHATSAPP_MODE", "", "WhatsApp mode: bot or self-chat").kept(),
    plain("SIGNAL_HTTP_URL", "", "Address of signal-cli").kept(),
    plain("SIGNAL_ACCOUNT", "", "Signal account number").kept(),
    plain("SIGNAL_GROUP_ALLOWED_USERS", "", "Signal: who may talk in groups").kept(),
    plain("SIGNAL_IGNORE_STORIES", "true", "Signal: ignore stories").kept(),
    plain("TWILIO_ACCOUNT_SID", "", "Twilio account").kept(),
    secret("TWILIO_AUTH_TOKEN", "Twilio token").kept(),
    plain("TWILIO_PHONE_NUMBER", "", "Twilio sender number").kept(),
    plain("SMS_WEBHOOK_PORT", "8080", "Port for incoming SMS").kept(),
    plain("EMAIL_ADDRESS", "", "Mail address of the agent").kept(),
    secret("EMAIL_PASSWORD", "Mail password").kept(),
    plain("EMAIL_IMAP_HOST", "", "Mail: IMAP server").kept(),
    plain("EMAIL_IMAP_PORT", "993", "Mail: IMAP port").kept(),
    plain("EMAIL_SMTP_HOST", "", "Mail: SMTP server").kept(),
    plain("EMAIL_SMTP_PORT", "587", "Mail: SMTP port").kept(),
    plain("EMAIL_ALLOWED_USERS", "", "Mail: senders who may talk to the agent").kept(),
    plain("EMAIL_ALLOW_ALL_USERS", "false", "Mail: let everybody in").kept(),
    plain("EMAIL_HOME_ADDRESS", "", "Mail: where unprompted messages go").kept(),
    plain("EMAIL_HOME_ADDRESS_NAME", "", "Mail: name of the home address").kept(),
    plain("EMAIL_POLL_INTERVAL", "15", "Mail: seconds between looks").kept(),
    plain("DINGTALK_CLIENT_ID", "", "DingTalk client").kept(),
    secret("DINGTALK_CLIENT_SECRET", "DingTalk secret").kept(),
    plain("DINGTALK_ALLOWED_USERS", "", "DingTalk: users who may talk to the agent").kept(),
    plain("MATTERMOST_URL", "", "Mattermost server").kept(),
    secret("MATTERMOST_TOKEN", "Mattermost token").kept(),
    plain("MATTERMOST_REQUIRE_MENTION", "true", "Mattermost: answer in channels only when mentioned").kept(),
    plain("MATTERMOST_FREE_RESPONSE_CHANNELS", "", "Mattermost: channels where no mention is needed").kept(),
    plain("MATTERMOST_REPLY_MODE", "", "Mattermost: off or thread").kept(),
    plain("MATRIX_HOMESERVER", "", "Matrix server").kept(),
    secret("MATRIX_ACCESS_TOKEN", "Matrix token").kept(),
    plain("MATRIX_USER_ID", "", "Matrix user").kept(),
    secret("MATRIX_PASSWORD", "Matrix password").kept(),
    plain("MATRIX_ALLOWED_USERS", "", "Matrix: users who may talk to the agent").kept(),
    plain("MATRIX_HOME_ROOM", "", "Matrix: where unprompted messages go").kept(),
    plain("MATRIX_HOME_ROOM_NAME", "", "Matrix: name of the home room").kept(),
    plain("MATRIX_ENCRYPTION", "false", "Matrix: end-to-end encryption").kept(),
    plain("WEBHOOK_ENABLED", "false", "Accept webhooks"),
    plain("WEBHOOK_PORT", "8644", "Port for webhooks"),
    secret("WEBHOOK_SECRET", "Secret that signs webhooks"),
    plain("API_SERVER_ENABLED", "false", "Run the OpenAI-compatible server"),
    secret("API_SERVER_KEY", "Key callers of the server must send; setting it also turns the server on"),
    plain("API_SERVER_HOST", "127.0.0.1", "Address of the server"),
    plain("API_SERVER_PORT", "8642", "Port of the server"),
    plain("API_SERVER_CORS_ORIGINS", "", "Web origins allowed to call the server"),
    plain("MESSAGING_CWD", "", "Working folder of messaging sessions; your home folder when unset"),
    plain("GATEWAY_ALLOWED_USERS", "", "Users every platform lets in"),
    plain("GATEWAY_ALLOW_ALL_USERS", "false", "Let everybody in on every platform"),
    // Agent behaviour and sessions.
    plain("HERMES_HOME", "~/.hermes", "The home folder"),
    plain("HERMES_MAX_ITERATIONS", "60", "Tool-loop steps per turn"),
    plain("HERMES_TOOL_PROGRESS", "", "Deprecated: false hides tool progress"),
    plain("HERMES_TOOL_PROGRESS_MODE", "", "Deprecated: all or new"),
    plain("HERMES_HUMAN_DELAY_MODE", "off", "Typing delay in chats: off, natural or custom"),
    plain("HERMES_HUMAN_DELAY_MIN_MS", "800", "Shortest typing delay"),
    plain("HERMES_HUMAN_DELAY_MAX_MS", "2500", "Longest typing delay"),
    plain("HERMES_QUIET", "false", "Less output").kept(),
    plain("HERMES_YOLO_MODE", "false", "Run every command without asking"),
    plain("HERMES_EXEC_ASK", "false", "Ask before dangerous commands outside the terminal program").kept(),
    plain("HERMES_TIMEZONE", "", "Time zone, before timezone in config.yaml"),
    plain("HERMES_PREFILL_MESSAGES_FILE", "", "JSON file of messages put before each conversation"),
    plain("HERMES_EPHEMERAL_SYSTEM_PROMPT", "", "Addition to the system prompt that is never stored"),
    plain("HERMES_REASONING_EFFORT", "", "Reasoning effort for gateway and cron"),
    plain("HERMES_BACKGROUND_NOTIFICATIONS", "all", "Which background results are announced"),
    plain("HERMES_REDACT_SECRETS", "true", "Mask keys in tool output and logs; read once at start"),
    plain("HERMES_ENABLE_PROJECT_PLUGINS", "false", "Load plugins from the working folder"),
    plain("CONTEXT_COMPRESSION_ENABLED", "true", "Summarise long conversations"),
    plain("CONTEXT_COMPRESSION_THRESHOLD", "0.85", "Fraction of the context that starts a summary"),
    plain("CONTEXT_COMPRESSION_MODEL", "", "Model that writes summaries").kept(),
    plain("AUXILIARY_VISION_PROVIDER", "", "Provider for the vision side task"),
    plain("AUXILIARY_VISION_MODEL", "", "Model for the vision side task"),
    plain("AUXILIARY_VISION_BASE_URL", "", "Endpoint for the vision side task"),
    secret("AUXILIARY_VISION_API_KEY", "Key for the vision side task"),
    plain("AUXILIARY_WEB_EXTRACT_PROVIDER", "", "Provider for the web extract side task").kept(),
    plain("AUXILIARY_WEB_EXTRACT_MODEL", "", "Model for the web extract side task").kept(),
    plain("AUXILIARY_WEB_EXTRACT_BASE_URL", "", "Endpoint for the web extract side task").kept(),
    secret("AUXILIARY_WEB_EXTRACT_API_KEY", "Key for the web extract side task").kept(),
    plain("AUXILIARY_APPROVAL_PROVIDER", "", "Provider for the approval side task"),
    plain("AUXILIARY_APPROVAL_MODEL", "", "Model for the approval side task"),
    plain("AUXILIARY_APPROVAL_BASE_URL", "", "Endpoint for the approval side task"),
    secret("AUXILIARY_APPROVAL_API_KEY", "Key for the approval side task"),
    plain("AUXILIARY_COMPRESSION_PROVIDER", "", "Provider for the compression side task"),
    plain("AUXILIARY_COMPRESSION_MODEL", "", "Model for the compression side task"),
    plain("AUXILIARY_COMPRESSION_BASE_URL", "", "Endpoint for the compression side task"),
    secret("AUXILIARY_COMPRESSION_API_KEY", "Key for the compression side task"),
    plain("AUXILIARY_SESSION_SEARCH_PROVIDER", "", "Provider for the session search side task").kept(),
    plain("AUXILIARY_SESSION_SEARCH_MODEL", "", "Model for the session search side task").kept(),
    plain("AUXILIARY_SESSION_SEARCH_BASE_URL", "", "Endpoint for the session search side task").kept(),
    secret("AUXILIARY_SESSION_SEARCH_API_KEY", "Key for the session search side task").kept(),
    plain("AUXILIARY_SKILLS_HUB_PROVIDER", "", "Provider for the skills hub side task").kept(),
    plain("AUXILIARY_SKILLS_HUB_MODEL", "", "Model for the skills hub side task").kept(),
    plain("AUXILIARY_SKILLS_HUB_BASE_URL", "", "Endpoint for the skills hub side task").kept(),
    secret("AUXILIARY_SKILLS_HUB_API_KEY", "Key for the skills hub side task").kept(),
    plain("AUXILIARY_MCP_PROVIDER", "", "Provider for the mcp side task"),
    plain("AUXILIARY_MCP_MODEL", "", "Model for the mcp side task"),
    plain("AUXILIARY_MCP_BASE_URL", "", "Endpoint for the mcp side task"),
    secret("AUXILIARY_MCP_API_KEY", "Key for the mcp side task"),
    plain("AUXILIARY_FLUSH_MEMORIES_PROVIDER", "", "Provider for the flush memories side task").kept(),
    plain("AUXILIARY_FLUSH_MEMORIES_MODEL", "", "Model for the flush memories side task").kept(),
    plain("AUXILIARY_FLUSH_MEMORIES_BASE_URL", "", "Endpoint for the flush memories side task").kept(),
    secret("AUXILIARY_FLUSH_MEMORIES_API_KEY", "Key for the flush memories side task").kept(),
    plain("SESSION_IDLE_MINUTES", "1440", "Idle minutes before a new conversation starts"),
    plain("SESSION_RESET_HOUR", "4", "Hour of the daily fresh start"),
    plain("HERMES_PYTHON", "", "Interpreter of plugins; that of the installation or python3 when unset"),
    plain("HERMES_ACCEPT_HOOKS", "", "Accept shell hooks without asking"),
    plain("HERMES_SAFE_MODE", "", "Use neither config.yaml nor plugins, hooks and MCP servers"),
    plain("HERMES_IGNORE_USER_CONFIG", "", "Use the defaults instead of config.yaml"),
    plain("HERMES_BUNDLED_PLUGINS", "", "Folder of bundled plugins").kept(),
    plain("HERMES_SKILLS_HUB_URL", "", "Address below which all skill registries are, instead of the public ones"),
    plain("HERMES_OPTIONAL_SKILLS", "", "Folder of optional skills"),
    // Set by Hermes for its own parts and children.
    plain("HERMES_INTERACTIVE", "", "Set to 1 by the terminal program").kept(),
    plain("HERMES_GATEWAY_SESSION", "", "Marks a gateway conversation"),
    plain("HERMES_SESSION_PLATFORM", "", "Platform of the conversation"),
    plain("HERMES_SESSION_CHAT_ID", "", "Chat of the conversation"),
    plain("HERMES_SESSION_CHAT_NAME", "", "Name of the chat"),
    plain("HERMES_SESSION_THREAD_ID", "", "Thread of the conversation"),
    plain("HERMES_SESSION_KEY", "", "Key of the conversation"),
    plain("HERMES_SESSION_SOURCE", "", "What started the session"),
    plain("HERMES_PLATFORM", "", "Platform whose disabled skills count"),
    plain("HERMES_CRON_AUTO_DELIVER_PLATFORM", "", "Where a job delivers: platform"),
    plain("HERMES_CRON_AUTO_DELIVER_CHAT_ID", "", "Where a job delivers: chat"),
    plain("HERMES_CRON_AUTO_DELIVER_THREAD_ID", "", "Where a job delivers: thread"),
    plain("HERMES_RPC_SOCKET", "", "Socket for code execution"),
    plain("HERMES_SPINNER_PAUSE", "", "Stops the spinner while a child owns the terminal").kept(),
    plain("HERMES_BUNDLED_SKILLS", "", "Folder to take the bundled skills from, instead of those in the program"),
    plain("HERMES_MANAGED", "", "Settings are managed by the system"),
    plain("HERMES_GATEWAY_LOCK_DIR", "", "Folder of gateway locks"),
    plain("HERMES_INSTALL_DIR", "", "Installation folder").kept(),
];
