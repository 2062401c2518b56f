//! The patterns that mark a line of a skill as suspicious. Ids, severities and categories are those of other
//! releases, whose reports people know.
//!
//! Each row has lower-case words of which a line must contain one before its pattern is tried.
// table: exempt from the length limit

use super::Severity::{self, Critical as C, High as H, Low as L, Medium as M};
use super::ThreatCategory::{
    self, CredentialExposure, Destructive, Execution, Exfiltration, Injection, Mining, Network, Obfuscation,
    Persistence, PrivilegeEscalation, Structural, SupplyChain, Traversal,
};

/// One kind of suspicious line.
pub(super) struct SkillRule {
    pub(super) id: &'static str,
    pub(super) severity: Severity,
    pub(super) category: ThreatCategory,
    pub(super) words: &'static [&'static str],
    pub(super) pattern: &'static str,
    pub(super) about: &'static str,
}

const fn rule(
    id: &'static str,
    severity: Severity,
    category: ThreatCategory,
    words: &'static [&'static str],
    pattern: &'static str,
    about: &'static str,
) -> SkillRule {
    SkillRule { id, severity, category, words, pattern, about }
}

#[rustfmt::skip]
pub(super) const RULES: &[SkillRule] = &[
    // Data that leaves the machine.
    rule("env_exfil_curl", C, Exfiltration, &["curl"], r"curl\s+[^\n]*\$\{?\w*(KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|API)", "curl with a secret variable"),
    rule("env_exfil_wget", C, Exfiltration, &["wget"], r"wget\s+[^\n]*\$\{?\w*(KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|API)", "wget with a secret variable"),
    rule("env_exfil_fetch", C, Exfiltration, &["fetch"], r"fetch\s*\([^\n]*(\$\{?|process\.env[.\[]\S*)\w*(KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|API)", "fetch with a secret variable"),
    rule("env_exfil_httpx", C, Exfiltration, &["httpx"], r"httpx?\.(get|post|put|patch)\s*\([^\n]*(KEY|TOKEN|SECRET|PASSWORD)", "HTTP request with a secret variable"),
    rule("env_exfil_requests", C, Exfiltration, &["requests."], r"requests\.(get|post|put|patch)\s*\([^\n]*(KEY|TOKEN|SECRET|PASSWORD)", "HTTP request with a secret variable"),
    rule("encoded_exfil", H, Exfiltration, &["base64"], r"base64[^\n]*\benv\b", "encodes the environment"),
    rule("ssh_dir_access", H, Exfiltration, &[".ssh"], r"(\$\{?HOME\}?|~)/\.ssh\b", "names the folder of SSH keys"),
    rule("aws_dir_access", H, Exfiltration, &[".aws"], r"(\$\{?HOME\}?|~)/\.aws\b", "names the folder of AWS credentials"),
    rule("gpg_dir_access", H, Exfiltration, &[".gnupg"], r"(\$\{?HOME\}?|~)/\.gnupg\b", "names the folder of GnuPG keys"),
    rule("kube_dir_access", H, Exfiltration, &[".kube"], r"(\$\{?HOME\}?|~)/\.kube\b", "names the folder of Kubernetes credentials"),
    rule("docker_dir_access", H, Exfiltration, &[".docker"], r"(\$\{?HOME\}?|~)/\.docker\b", "names the folder of Docker credentials"),
    rule("hermes_env_access", C, Exfiltration, &[".env"], r"(\$\{?HOME\}?/\.hermes|~/\.hermes|\$\{?HERMES_HOME\}?)/\.env\b", "names the file with the agent's secrets"),
    rule("read_secrets_file", C, Exfiltration, &["cat"], r"\bcat\s+[^\n]*(\.env|credentials|\.netrc|\.pgpass|\.npmrc|\.pypirc)\b", "prints a file with secrets"),
    rule("dump_all_env", H, Exfiltration, &["printenv", "env"], r"\bprintenv\b|\benv\s*\|", "prints all variables"),
    rule("python_os_environ", H, Exfiltration, &["os.environ"], r"\bos\.environ\b", "reads variables in Python"),
    rule("python_getenv_secret", C, Exfiltration, &["getenv"], r"os\.getenv\s*\(\s*[^)]*(KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL)", "reads a secret variable in Python"),
    rule("node_process_env", H, Exfiltration, &["process.env"], r"process\.env\s*[.\[]", "reads variables in Node"),
    rule("ruby_env_secret", C, Exfiltration, &["env"], r"\bENV(\[|\.fetch\s*\()[^\])]*(KEY|TOKEN|SECRET|PASSWORD)", "reads a secret variable in Ruby"),
    rule("dns_exfil", C, Exfiltration, &["dig", "nslookup", "host"], r"\b(dig|nslookup|host)\s+[^\n]*\$", "name lookup with a variable in it"),
    rule("tmp_staging", C, Exfiltration, &["/tmp/"], r">\s*/tmp/\S*\s*&&\s*(curl|wget|nc|python)", "stages data in /tmp and sends it"),
    rule("md_image_exfil", H, Exfiltration, &["]("], r"!\[[^\n]*\]\(https?://[^)\n]*\$\{?", "image address with a variable in it"),
    rule("md_link_exfil", H, Exfiltration, &["]("], r"(^|[^!])\[[^\]\n]*\]\(https?://[^)\n]*\$\{?", "link with a variable in it"),
    rule("context_exfil", H, Exfiltration, &["conversation", "chat", "previous messages", "context"], r"\b(include|output|print|send|share)\s+(?:\w+\s+)*(conversation|chat\s+history|previous\s+messages|your\s+context)\b", "asks for the conversation"),
    rule("send_to_url", H, Exfiltration, &["http"], r"\b(send|post|upload|transmit)\s+[^\n]*\s(to|at)\s+https?://", "asks to send data to an address"),
    // Instructions against the user or the agent.
    rule("prompt_injection_ignore", C, Injection, &["instructions"], r"ignore\s+(?:\w+\s+)*(previous|all|above|prior)\s+(?:\w+\s+)*instructions", "overrides earlier instructions"),
    rule("role_hijack", H, Injection, &["you"], r"you\s+are\s+(?:\w+\s+)*now\s", "gives the agent another role"),
    rule("deception_hide", C, Injection, &["tell"], r"(do\s+not|don'?t|never)\s+(?:\w+\s+)*tell\s+(?:\w+\s+)*the\s+user", "hides something from the user"),
    rule("sys_prompt_override", C, Injection, &["prompt"], r"system\s+(?:\w+\s+)*prompt\s+(?:\w+\s+)*override", "overrides the system prompt"),
    rule("role_pretend", H, Injection, &["pretend"], r"pretend\s+(?:\w+\s+)*(you\s+are|to\s+be)\s", "makes the agent pretend"),
    rule("disregard_rules", C, Injection, &["disregard"], r"disregard\s+(?:\w+\s+)*(your|all|any)\s+(?:\w+\s+)*(instructions|rules|guidelines)", "overrides rules"),
    rule("leak_system_prompt", H, Injection, &["prompt"], r"\b(output|print|reveal|show|repeat)\s+(?:\w+\s+)*(system|initial)\s+prompt", "asks for the system prompt"),
    rule("conditional_deception", H, Injection, &["when"], r"\b(when|if)\s+(no\s+one|nobody|the\s+user\s+is\s+not)\s+(?:\w+\s+)*(is\s+)?(watching|looking|present)", "behaves differently when unobserved"),
    rule("bypass_restrictions", C, Injection, &["act"], r"act\s+as\s+(if|though)\s+(?:\w+\s+)*you\s+(?:\w+\s+)*(have\s+no|don'?t\s+have)\s+(?:\w+\s+)*(restrictions|limits|rules)", "removes restrictions"),
    rule("translate_execute", C, Injection, &["translate"], r"translate\s+[^\n]*\sinto\s+[^\n]*\sand\s+(execute|run|eval)", "translates and runs"),
    rule("html_comment_injection", H, Injection, &["<!--"], r"<!--[^>]*\b(ignore|override|system|secret|hidden)\b[^>]*-->", "instruction in a hidden comment"),
    rule("hidden_div", H, Injection, &["none", "hidden"], r#"<\s*(div|span|p)\s+[^>]*style\s*=\s*["'][^"'>]*(display\s*:\s*none|visibility\s*:\s*hidden)"#, "text that is not displayed"),
    rule("jailbreak_dan", C, Injection, &["dan", "do anything now"], r"\bDAN\s+mode\b|do\s+anything\s+now", "known jailbreak"),
    rule("jailbreak_dev_mode", C, Injection, &["developer"], r"\bdeveloper\s+mode\b[^\n]*\b(enabled?|activated?|unlocked)\b", "known jailbreak"),
    rule("hypothetical_bypass", H, Injection, &["hypothetical"], r"hypothetical\s+scenario[^\n]*\b(ignore|bypass|override)", "bypass by a hypothetical case"),
    rule("educational_pretext", M, Injection, &["educational purposes"], r"for\s+educational\s+purposes?\s+only", "usual pretext"),
    rule("remove_filters", C, Injection, &["respond", "answer", "reply"], r"(respond|answer|reply)\s+without\s+(?:\w+\s+)*(restrictions|limitations|filters|safety)", "removes safety filters"),
    rule("fake_update", H, Injection, &["you have been"], r"you\s+have\s+been\s+(?:\w+\s+)*(updated|upgraded|patched)\s+to", "claims an update"),
    rule("fake_policy", M, Injection, &["policy"], r"(new|updated)\s+(?:\w+\s+)*(policy|guidelines)\s+(requires?|states?|allows?|permits?)", "claims another policy"),
    rule("invisible_unicode", H, Injection, &[], r"", "characters that cannot be seen"),
    // Destruction.
    rule("destructive_root_rm", C, Destructive, &["rm"], r"\brm\s+-(rf|fr|r\s+-f|f\s+-r)\s+(--no-preserve-root\s+)?/", "removes from the root"),
    rule("destructive_home_rm", C, Destructive, &["rm"], r"\brm\s+-(rf|fr|r\s+-f|f\s+-r|r)\s+[^\n]*(\$\{?HOME\}?|~)(/\s|/?\*|/?\s|/?$|/\.)", "removes the home folder"),
    rule("insecure_perms", M, Destructive, &["chmod"], r"\bchmod\s+(-R\s+)?0?777\b", "opens files to everybody"),
    rule("system_overwrite", C, Destructive, &["/etc/"], r">{1,2}\s*/etc/", "overwrites a system file"),
    rule("format_filesystem", C, Destructive, &["mkfs"], r"\bmkfs(\.\w+)?\s", "formats a file system"),
    rule("disk_overwrite", C, Destructive, &["dd"], r"\bdd\s+[^\n]*(if=[^\n]*of=/dev/|of=/dev/(sd|hd|nvme|vd|disk))", "writes to a disk"),
    rule("python_rmtree", H, Destructive, &["rmtree"], r"shutil\.rmtree\s*\(\s*[^)]", "removes a tree in Python"),
    rule("truncate_system", C, Destructive, &["truncate"], r"truncate\s+-s\s*0\s+/", "empties a system file"),
    // Persistence.
    rule("persistence_cron", M, Persistence, &["crontab", "/etc/cron"], r"\bcrontab\b|/etc/cron\.", "changes scheduled jobs"),
    rule("shell_rc_mod", M, Persistence, &["rc", "profile"], r"\.(bashrc|zshrc|profile|bash_profile|bash_login|zprofile|zlogin|zshenv)\b", "names a shell's start file"),
    rule("ssh_backdoor", C, Persistence, &["authorized_keys"], r"authorized_keys", "names the file of accepted SSH keys"),
    rule("ssh_keygen", M, Persistence, &["ssh-keygen"], r"ssh-keygen", "makes an SSH key"),
    rule("systemd_service", M, Persistence, &["systemd", "systemctl"], r"systemd[^\n]*\.service|systemctl\s+(--user\s+)?(enable|start)", "installs a service"),
    rule("init_script", M, Persistence, &["/etc/init.d/"], r"/etc/init\.d/", "installs a start script"),
    rule("macos_launchd", M, Persistence, &["launchctl", "launchagents", "launchdaemons"], r"launchctl\s+(load|bootstrap)|LaunchAgents|LaunchDaemons", "installs a launch agent"),
    rule("sudoers_mod", C, Persistence, &["/etc/sudoers", "visudo"], r"/etc/sudoers|visudo", "changes who is root"),
    rule("git_config_global", M, Persistence, &["git"], r"git\s+config\s+--global", "changes git for all repositories"),
    rule("agent_config_mod", C, Persistence, &["agents.md", "claude.md", ".cursorrules", ".clinerules"], r"AGENTS\.md|CLAUDE\.md|\.cursorrules|\.clinerules", "names a file of instructions for agents"),
    rule("hermes_config_mod", C, Persistence, &[".hermes/"], r"\.hermes/(config\.yaml|SOUL\.md)", "names the agent's configuration"),
    rule("other_agent_config", H, Persistence, &[".claude/", ".codex/"], r"\.(claude/settings|codex/config)", "names another agent's configuration"),
    // Connections.
    rule("reverse_shell", C, Network, &["nc", "ncat", "socat"], r"\bnc\s+-[lp]|\bncat\s+-[lp]|\bsocat\b", "listener or relay"),
    rule("tunnel_service", H, Network, &["ngrok", "localtunnel", "serveo", "cloudflared"], r"\bngrok\b|\blocaltunnel\b|\bserveo\b|\bcloudflared\b", "tunnel into this machine"),
    rule("hardcoded_ip_port", M, Network, &[":"], r"\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}:\d{2,5}\b", "fixed address and port"),
    rule("bind_all_interfaces", H, Network, &["0.0.0.0", "inaddr_any"], r"0\.0\.0\.0:\d+|INADDR_ANY|(host|bind)\S*[\s=:]+\W?0\.0\.0\.0", "listens to every network"),
    rule("bash_reverse_shell", C, Network, &["/dev/tcp/"], r"/dev/tcp/", "shell over a connection"),
    rule("python_socket_oneliner", C, Network, &["socket"], r#"python[23]?\s+-c\s+["'][^\n]*import\s+[^\n]*socket"#, "connection from a one-line program"),
    rule("python_socket_connect", H, Network, &[".connect"], r"socket\S*\.connect\s*\(\s*\(|\.connect\s*\(\s*\(\s*['\x22]", "opens a connection in Python"),
    rule("exfil_service", H, Network, &["webhook.site", "requestbin", "pipedream", "hookbin"], r"webhook\.site|requestbin\.|pipedream\.net|hookbin\.com", "service that records requests"),
    rule("paste_service", M, Network, &["pastebin", "hastebin", "ghostbin", "paste.rs"], r"pastebin\.com|hastebin\.com|ghostbin\.|paste\.rs\b", "public text service"),
    // Hidden content.
    rule("base64_decode_pipe", H, Obfuscation, &["base64"], r"base64\s+(-d|-D|--decode)\b[^\n]*\|", "decodes and pipes"),
    rule("hex_encoded_string", M, Obfuscation, &["\\x"], r"\\x[0-9a-f]{2}(\\x[0-9a-f]{2}){4,}", "hexadecimal text"),
    rule("eval_string", H, Obfuscation, &["eval"], r#"\beval\s*\(\s*["']"#, "runs a text"),
    rule("exec_string", H, Obfuscation, &["exec"], r#"\bexec\s*\(\s*["']"#, "runs a text"),
    rule("echo_pipe_exec", C, Obfuscation, &["echo"], r"\becho\s+[^\n]*\|\s*(bash|sh|zsh|dash|python[23]?|perl|ruby|node)\b", "pipes a text into an interpreter"),
    rule("python_compile_exec", H, Obfuscation, &["compile"], r#"\bcompile\s*\(\s*[^)]+,\s*["'][^"']*["']\s*,\s*["']exec["']"#, "compiles a text"),
    rule("python_getattr_builtins", H, Obfuscation, &["__builtins__"], r"getattr\s*\(\s*__builtins__", "reaches built-in functions by name"),
    rule("python_import_os", H, Obfuscation, &["__import__"], r#"__import__\s*\(\s*["']os["']"#, "hidden import"),
    rule("python_codecs_decode", M, Obfuscation, &["codecs"], r"codecs\.decode\s*\(\s*[^)]", "decodes a text"),
    rule("js_char_code", M, Obfuscation, &["fromcharcode", "charcodeat"], r"String\.fromCharCode|charCodeAt", "builds a text from numbers"),
    rule("js_base64", M, Obfuscation, &["atob", "btoa"], r"\b(atob|btoa)\s*\(", "base64 in JavaScript"),
    rule("string_reversal", L, Obfuscation, &["::-1"], r"\[::-1\]", "reverses a text"),
    rule("chr_building", H, Obfuscation, &["chr"], r"\bchr\s*\(\s*\d+\s*\)\s*\+\s*chr\s*\(\s*\d+", "builds a text from numbers"),
    rule("unicode_escape_chain", M, Obfuscation, &["\\u"], r"\\u[0-9a-f]{4}(\\u[0-9a-f]{4}){3,}", "escaped text"),
    // Other programs.
    rule("python_subprocess", M, Execution, &["subprocess"], r"subprocess\.(run|call|Popen|check_output|check_call|getoutput)\s*\(", "starts a program"),
    rule("python_os_system", H, Execution, &["os.system"], r"os\.system\s*\(", "runs a shell command"),
    rule("python_os_popen", H, Execution, &["os.popen"], r"os\.popen\s*\(", "runs a shell command"),
    rule("node_child_process", H, Execution, &["child_process"], r"child_process", "starts a program"),
    rule("java_runtime_exec", H, Execution, &["runtime"], r"Runtime\.getRuntime\(\)\.exec\s*\(", "starts a program"),
    rule("backtick_subshell", M, Execution, &["`"], r"`[^`]*\$\([^)]+\)[^`]*`", "shell command in a text"),
    // Paths.
    rule("path_traversal_deep", H, Traversal, &["../../.."], r"\.\./\.\./\.\.", "leads far out of the folder"),
    rule("path_traversal", M, Traversal, &["../.."], r"\.\./\.\.", "leads out of the folder"),
    rule("system_passwd_access", C, Traversal, &["/etc/"], r"/etc/(passwd|shadow)\b", "names the system's accounts"),
    rule("proc_access", H, Traversal, &["/proc/"], r"/proc/(self|\d+)/", "reads another process"),
    rule("dev_shm", M, Traversal, &["/dev/shm/"], r"/dev/shm/", "shared memory"),
    rule("symlink_escape", C, Traversal, &[], r"", "link that leads out of the skill"),
    rule("broken_symlink", M, Traversal, &[], r"", "link that leads nowhere"),
    // Mining.
    rule("crypto_mining", C, Mining, &["xmrig", "stratum+", "monero", "coinhive", "cryptonight"], r"xmrig|stratum\+tcp|monero|coinhive|cryptonight", "mines a currency"),
    rule("mining_indicators", M, Mining, &["hashrate", "nonce"], r"\bhashrate\b|nonce[^\n]*difficulty", "words of mining"),
    // Code from elsewhere.
    rule("curl_pipe_shell", C, SupplyChain, &["curl"], r"curl\s+[^\n]*\|\s*(sudo\s+)?(ba|z|da)?sh\b", "runs a download"),
    rule("wget_pipe_shell", C, SupplyChain, &["wget"], r"wget\s+[^\n]*\|\s*(sudo\s+)?(ba|z|da)?sh\b", "runs a download"),
    rule("curl_pipe_python", C, SupplyChain, &["curl", "wget"], r"(curl|wget)\s+[^\n]*\|\s*(sudo\s+)?python", "runs a download"),
    rule("pep723_inline_deps", M, SupplyChain, &["# ///"], r"#\s*///\s*script", "script with its own dependencies"),
    rule("unpinned_pip_install", M, SupplyChain, &["pip"], r"\bpip[23]?\s+install\s+(-\S+\s+)*[A-Za-z][\w.\[\],-]*(\s|$)", "package without a version"),
    rule("unpinned_npm_install", M, SupplyChain, &["npm"], r"\bnpm\s+(install|i)\s+(-\S+\s+)*(@[\w.-]+/)?[A-Za-z][\w.-]*(\s|$)", "package without a version"),
    rule("uv_run", M, SupplyChain, &["uv"], r"\buv\s+run\s", "installs while running"),
    rule("remote_fetch", M, SupplyChain, &["curl", "wget", "httpx", "requests", "fetch"], r"\b(curl|wget|httpx?\.get|requests\.get|fetch)\s*[( ]\s*[^\n]*https?://", "fetches from elsewhere"),
    rule("git_clone", M, SupplyChain, &["git"], r"\bgit\s+clone\s", "fetches a repository"),
    rule("docker_pull", M, SupplyChain, &["docker"], r"\bdocker\s+(pull|run)\s", "fetches an image"),
    // More rights.
    rule("allowed_tools_field", H, PrivilegeEscalation, &["allowed-tools"], r"^\s*allowed-tools\s*:", "asks for tools without questions"),
    rule("sudo_usage", H, PrivilegeEscalation, &["sudo"], r"\bsudo\s", "runs as root"),
    rule("setuid_setgid", C, PrivilegeEscalation, &["setuid", "setgid", "cap_set"], r"\bsetuid\b|\bsetgid\b|cap_setuid", "changes the user of a program"),
    rule("nopasswd_sudo", C, PrivilegeEscalation, &["nopasswd"], r"NOPASSWD", "root without a password"),
    rule("suid_bit", C, PrivilegeEscalation, &["chmod"], r"\bchmod\s+([ug]?\+s|0?[2467][0-7]{3}\b)", "sets the bit for another user"),
    // Secrets in the text.
    rule("hardcoded_secret", C, CredentialExposure, &["key", "token", "secret", "password"], r#"(api[_-]?key|token|secret|password)\s*[=:]\s*["'][A-Za-z0-9+/=_-]{20,}["']"#, "secret in the text"),
    rule("embedded_private_key", C, CredentialExposure, &["private key"], r"-----BEGIN\s+([A-Z]+\s+)?PRIVATE\s+KEY-----", "private key in the text"),
    rule("github_token_leaked", C, CredentialExposure, &["ghp_", "gho_", "github_pat_"], r"gh[po]_[A-Za-z0-9]{36}|github_pat_\w{60,}", "GitHub token in the text"),
    rule("openai_key_leaked", C, CredentialExposure, &["sk-"], r"\bsk-(proj-)?[A-Za-z0-9]{20,}", "OpenAI key in the text"),
    rule("anthropic_key_leaked", C, CredentialExposure, &["sk-ant-"], r"\bsk-ant-[A-Za-z0-9_-]{20,}", "Anthropic key in the text"),
    rule("aws_access_key_leaked", C, CredentialExposure, &["akia"], r"\bAKIA[0-9A-Z]{16}\b", "AWS key in the text"),
    // The shape of the folder.
    rule("too_many_files", M, Structural, &[], r"", "more files than a skill needs"),
    rule("oversized_skill", H, Structural, &[], r"", "larger than a skill needs to be"),
    rule("oversized_file", M, Structural, &[], r"", "file larger than a skill needs"),
    rule("binary_file", C, Structural, &[], r"", "program in binary form"),
    rule("unexpected_executable", M, Structural, &[], r"", "executable that is not a script"),
    rule("scan_incomplete", H, Structural, &[], r"", "more text than is scanned"),
];
