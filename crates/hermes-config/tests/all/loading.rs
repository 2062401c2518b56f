//! Loading rules, precedence and typed settings.

use std::fs;
use std::time::Duration;

use hermes_config::precedence::{self, base_url, max_iterations, model, provider};
use hermes_config::settings::{
    ApprovalMode, ApprovalSettings, AuxiliaryTaskSettings, CompressionSettings, CustomProvider,
    DelegationSettings, DisplaySettings, FallbackModel, McpServer, McpTransport, ProviderRouting,
    SandboxMode, TerminalSettings, ToolProgress,
};
use hermes_config::yaml::YamlValue;
use hermes_config::{ConfigFileState, Home, ProgramSurface, custom_slug};

use crate::support::{ConfigFixture, config, env};

#[test]
fn rule_1_missing_empty_and_listlike_files_mean_defaults() {
    let temp = ConfigFixture::new();
    let loaded = temp.load(&env(&[]));
    assert_eq!(loaded.state(), ConfigFileState::Missing);
    assert!(loaded.warnings().is_empty());
    assert!(!temp.home.config().exists(), "loading writes nothing");
    for text in ["", "# nothing\n", "---\n"] {
        assert_eq!(config(text, &[]).count("agent.max_turns"), 60);
    }
    let list = config("- a\n- b\n", &[]);
    assert_eq!(list.count("agent.max_turns"), 60);
    assert!(list.warnings()[0].text.contains("config.yaml"));
}

#[test]
fn rule_2_mappings_merge_and_the_rest_replaces() {
    let loaded =
        config("agent: {max_turns: 90, custom: x}\ntoolsets: []\ncompression: {threshold:}\nbrowser:\n", &[]);
    assert_eq!(loaded.count("agent.max_turns"), 90);
    assert!(!loaded.flag("agent.verbose"));
    assert_eq!(loaded.merged().lookup("agent.custom"), Some(&YamlValue::from("x")));
    assert_eq!(loaded.merged().lookup("toolsets"), Some(&YamlValue::Seq(vec![])));
    assert_eq!(loaded.merged().lookup("compression.threshold"), Some(&YamlValue::Null));
    assert_eq!(loaded.number("compression.threshold"), Some(0.85), "null reads as the default");
    assert_eq!(loaded.count("browser.inactivity_timeout"), 120);
}

#[test]
fn rule_3_a_broken_file_is_named_and_left_alone() {
    let text = "agent:\n  max_turns: 5\n bad: [\n";
    let temp = ConfigFixture::with_config(text);
    let loaded = temp.load(&env(&[]));
    assert_eq!(loaded.state(), ConfigFileState::Broken);
    assert_eq!(loaded.count("agent.max_turns"), 60);
    let warning = &loaded.warnings()[0].text;
    assert!(warning.starts_with("Warning: Failed to load config: "), "{warning}");
    for part in ["config.yaml", "line 3", "hermes config edit"] {
        assert!(warning.contains(part), "{warning}");
    }
    assert_eq!(temp.config_text(), text);
    fs::write(temp.home.config(), b"a: 1\nb: \xff\n").expect("write");
    assert!(temp.load(&env(&[])).warnings()[0].text.contains("line 2"));
}

#[test]
fn rule_4_variables_expand_in_values_only() {
    let pairs = [("KEY", "sk-1"), ("EMPTY", "")];
    for (text, expected) in [
        ("${KEY}", "sk-1"),
        ("a${KEY}b${KEY}", "ask-1bsk-1"),
        ("${NOPE}", "${NOPE}"),
        ("$KEY", "$KEY"),
        ("${}", "${}"),
        ("${KEY", "${KEY"),
        ("${EMPTY}", ""),
        ("${}${KEY}", "${}sk-1"),
    ] {
        assert_eq!(hermes_config::expand_text(text, &env(&pairs)), expected, "{text}");
    }
    let loaded = config("mcp_servers:\n  '${KEY}':\n    command: run\n    args: ['${KEY}', 5]\n", &pairs);
    let servers = loaded.map("mcp_servers");
    assert_eq!(servers.keys().collect::<Vec<_>>(), ["${KEY}"]);
    assert_eq!(
        loaded.merged().get_path(["mcp_servers", "${KEY}", "args", "0"]),
        Some(&YamlValue::from("sk-1"))
    );
    assert_eq!(
        loaded.raw().get("mcp_servers").and_then(|v| v.get_path(["${KEY}", "args", "0"])),
        Some(&YamlValue::from("${KEY}"))
    );
}

#[test]
fn rules_7_8_9_old_spellings_are_folded() {
    let loaded = config(
        "model: gpt\nprovider: openai\nbase_url: http://x/v1/\ncontext_length: 5\nmax_turns: 7\n",
        &[],
    );
    assert_eq!(loaded.text("model.default"), "gpt");
    assert_eq!(loaded.text("model.provider"), "openai");
    assert_eq!(loaded.text("model.base_url"), "http://x/v1/");
    assert_eq!(loaded.int("model.context_length"), Some(5));
    assert_eq!(loaded.count("agent.max_turns"), 7);
    assert_eq!(loaded.raw().get("model"), Some(&YamlValue::from("gpt")), "the file's own tree is untouched");
    let nested = config(
        "model: {model: m, provider: zai, api: k}\nprovider: openai\nmax_turns: 7\nagent: {max_turns: 8}\n",
        &[],
    );
    assert_eq!(nested.text("model.default"), "m");
    assert_eq!(nested.text("model.provider"), "zai");
    assert_eq!(nested.text("model.api_key"), "k");
    assert_eq!(nested.count("agent.max_turns"), 8);
    assert!(!config("checkpoints: off\n", &[]).flag("checkpoints.enabled"));
}

#[test]
fn rule_10_wrong_types_fall_back_with_a_warning() {
    let loaded = config(
        "agent: {max_turns: many}\napprovals: {mode: sometimes}\nterminal: 5\nmemory: {nudge_interval: '7'}\n",
        &[],
    );
    assert_eq!(loaded.count("agent.max_turns"), 60);
    assert_eq!(loaded.text("approvals.mode"), "manual");
    assert_eq!(loaded.text("terminal.backend"), "local");
    assert_eq!(loaded.count("memory.nudge_interval"), 7);
    let keys: Vec<_> = loaded.warnings().iter().filter_map(|warning| warning.key.as_deref()).collect();
    assert_eq!(keys, ["agent.max_turns", "terminal", "approvals.mode"]);
}

/// Covers words that YAML 1.1 reads as booleans, and ids beyond 2^53.
#[test]
fn t41_1_booleans_become_the_words_again() {
    let loaded = config(
        "approvals: {mode: off}\ndisplay: {tool_progress: off}\nterminal: {sandbox: off}\nskills: {disabled: [1234567890123456789]}\n",
        &[],
    );
    assert!(loaded.warnings().is_empty());
    assert_eq!(ApprovalSettings::from_config(&loaded).mode, ApprovalMode::Off);
    assert_eq!(DisplaySettings::resolve(&loaded, &env(&[])).tool_progress, ToolProgress::Off);
    assert_eq!(TerminalSettings::resolve(&loaded, &env(&[])).sandbox, SandboxMode::Off);
    assert_eq!(loaded.list("skills.disabled"), ["1234567890123456789"]);
    assert_eq!(config("display: {tool_progress: on}\n", &[]).text("display.tool_progress"), "all");
}

/// Shows that streaming is on when absent, and otherwise as written.
#[test]
fn t41_2_streaming_is_on_unless_written() {
    assert!(config("", &[]).flag("display.streaming"));
    assert!(!config("display: {streaming: false}\n", &[]).flag("display.streaming"));
}

/// Shows that the old name of the backend works, and that the new one takes precedence.
#[test]
fn t41_11_env_type_is_the_backend() {
    let none = env(&[]);
    let backend = |text: &str| TerminalSettings::resolve(&config(text, &[]), &none).backend;
    assert_eq!(backend("terminal: {env_type: docker}\n"), "docker");
    assert_eq!(backend("terminal: {env_type: docker, backend: ssh}\n"), "ssh");
    assert_eq!(backend("terminal: {backend: Dokcer}\n"), "dokcer", "a misspelled one is not the default");
    assert_eq!(backend(""), "local");
}

/// Shows that a terminal section overrides the variables even where it equals the defaults.
#[test]
fn t41_12_a_terminal_section_beats_variables() {
    let shell = env(&[
        ("TERMINAL_ENV", "docker"),
        ("TERMINAL_TIMEOUT", "5"),
        ("TERMINAL_DOCKER_VOLUMES", "[\"a:b\"]"),
    ]);
    let with = TerminalSettings::resolve(&config("terminal: {backend: local}\n", &[]), &shell);
    assert_eq!((with.backend.as_str(), with.timeout), ("local", Duration::from_mins(3)));
    let without = TerminalSettings::resolve(&config("model: x\n", &[]), &shell);
    assert_eq!((without.backend.as_str(), without.timeout), ("docker", Duration::from_secs(5)));
    assert_eq!(without.docker_volumes, ["a:b"]);
}

/// Shows that an unresolved `${VAR}` is reported.
#[test]
fn t41_13_unresolved_variables_are_found() {
    let found = |pairs: &[(&str, &str)]| config("model: {api_key: '${MY_KEY}'}\n", pairs).findings();
    assert_eq!(found(&[])[0].key, "model.api_key");
    assert!(found(&[("MY_KEY", "x")]).is_empty());
    assert!(config("model: '${M}'\n", &[("M", "m")]).findings().is_empty());
}

/// Shows that the endpoint of one provider is not used for another.
#[test]
fn t41_19_a_left_over_endpoint_is_dropped() {
    let loaded = config("model: {provider: custom, base_url: 'http://l:1/v1/'}\n", &[]);
    assert_eq!(base_url(&loaded, "custom").as_deref(), Some("http://l:1/v1"));
    assert_eq!(base_url(&loaded, "ollama").as_deref(), Some("http://l:1/v1"));
    assert_eq!(base_url(&loaded, "anthropic"), None);
    let auto = config("model: {base_url: 'http://l:1/v1'}\n", &[]);
    assert!(base_url(&auto, "auto").is_some() && base_url(&auto, "openrouter").is_none());
}

#[test]
fn precedence_of_models_providers_and_limits() {
    let shell = env(&[
        ("LLM_MODEL", "from-llm"),
        ("HERMES_INFERENCE_PROVIDER", "zai"),
        ("HERMES_MAX_ITERATIONS", "30"),
        ("HERMES_TIMEZONE", "Europe/Paris"),
        ("HERMES_PREFILL_MESSAGES_FILE", "p.json"),
        ("HERMES_EPHEMERAL_SYSTEM_PROMPT", "env"),
    ]);
    let bare = config("", &[]);
    let full = config(
        "model: {default: m, provider: openai}\nagent: {max_turns: 9, system_prompt: s}\ntimezone: UTC\n",
        &[],
    );
    assert_eq!(model(&bare, &shell, ProgramSurface::Cli, None), "anthropic/claude-opus-4.6");
    assert_eq!(model(&bare, &shell, ProgramSurface::Gateway, None), "from-llm");
    assert_eq!(model(&full, &shell, ProgramSurface::Gateway, None), "m");
    assert_eq!(model(&full, &shell, ProgramSurface::Cli, Some("flag")), "flag");
    assert_eq!(model(&full, &env(&[("HERMES_INFERENCE_MODEL", "i")]), ProgramSurface::Gateway, None), "i");
    assert_eq!(provider(&bare, &shell, None), "zai");
    assert_eq!(provider(&full, &shell, None), "openai");
    assert_eq!(provider(&full, &shell, Some("nous")), "nous");
    assert_eq!(provider(&config("model: {provider: auto}", &[]), &env(&[]), None), "auto");
    assert_eq!(max_iterations(&bare, &shell, None), 30);
    assert_eq!(max_iterations(&full, &shell, None), 9);
    assert_eq!(max_iterations(&full, &shell, Some(3)), 3);
    assert_eq!(max_iterations(&bare, &env(&[]), None), 60);
    assert_eq!(precedence::timezone(&full, &shell).as_deref(), Some("Europe/Paris"));
    assert_eq!(precedence::timezone(&full, &env(&[])).as_deref(), Some("UTC"));
    assert_eq!(precedence::ephemeral_prompt(&full, &env(&[])).as_deref(), Some("s"));
    assert_eq!(precedence::ephemeral_prompt(&full, &shell).as_deref(), Some("env"));
    let home = Home::new("/h");
    assert_eq!(precedence::prefill_file(&full, &shell, &home), Some("/h/p.json".into()));
    let compression = |text: &str| {
        let shell =
            env(&[("CONTEXT_COMPRESSION_THRESHOLD", "0.5"), ("CONTEXT_COMPRESSION_ENABLED", "False")]);
        CompressionSettings::resolve(&config(text, &[]), &shell)
    };
    assert_eq!((compression("").threshold, compression("").enabled), (0.5, false));
    assert!((compression("compression: {threshold: 0.7, target_ratio: 3}\n").threshold - 0.7).abs() < 1e-9);
    assert!((compression("compression: {target_ratio: 3}\n").target_ratio - 0.8).abs() < 1e-9);
}

/// Shows that the minimal file a deployment tool writes loads without warnings.
#[test]
fn minimal_deployment_files_load_without_a_word() {
    let text = "model:\n  provider: custom\n  base_url: http://127.0.0.1:9000/v1\n  default: local-model\n";
    let temp = ConfigFixture::with_config(text);
    fs::write(
        temp.home.dotenv(),
        "HERMES_INFERENCE_PROVIDER=custom\nAPI_SERVER_ENABLED=1\nAPI_SERVER_KEY=k\n",
    )
    .expect("write");
    let layered = env(&[]).with_files(&temp.home, None);
    let loaded = temp.load(&layered);
    assert!(loaded.warnings().is_empty() && loaded.findings().is_empty());
    // The file contains `1`, not `true`.
    assert_eq!(layered.bool("API_SERVER_ENABLED"), Some(true));
    let named = provider(&loaded, &layered, None);
    let chosen = model(&loaded, &layered, ProgramSurface::Gateway, None);
    assert_eq!((named.as_str(), chosen.as_str()), ("custom", "local-model"));
    assert_eq!(base_url(&loaded, &named).as_deref(), Some("http://127.0.0.1:9000/v1"));
    assert_eq!(temp.config_text(), text);
}

#[test]
fn providers_fallbacks_and_side_tasks_are_typed() {
    let loaded = config(
        "custom_providers:\n- {name: My Box, base_url: 'http://b/v1/', api_key: sk-secret, models: {m: {context_length: 8192}}}\n\
         providers: {other: {base_url: 'http://o'}}\n\
         fallback_model: [{provider: zai, model: glm}, {provider: zai}, {provider: zai, model: glm}]\n\
         fallback_providers: [{provider: nous, model: h}]\n\
         provider_routing: {sort: price, only: [a, b], require_parameters: on}\n\
         auxiliary: {vision: {provider: openrouter, timeout: '1e1'}}\n\
         compression: {summary_model: sm}\n\
         delegation: {api_key: hidden-key}\n",
        &[],
    );
    let none = env(&[]);
    let endpoints = CustomProvider::all(&loaded);
    assert_eq!(endpoints.len(), 2);
    let own = endpoints.iter().find(|own| custom_slug(&own.name) == "my-box").expect("found by slug");
    assert_eq!((own.base_url.as_str(), own.context_lengths[0].1), ("http://b/v1", 8192));
    let fallbacks = FallbackModel::chain(&loaded);
    let chain: Vec<_> = fallbacks.iter().map(|entry| entry.model.as_str()).collect();
    assert_eq!(chain, ["h", "glm"]);
    assert_eq!(ProviderRouting::from_config(&loaded).require_parameters, Some(true));
    let vision = AuxiliaryTaskSettings::resolve(&loaded, &none, "vision");
    assert_eq!((vision.provider.as_str(), vision.timeout), ("openrouter", Duration::from_secs(10)));
    let compression = AuxiliaryTaskSettings::resolve(&loaded, &none, "compression");
    assert_eq!((compression.model.as_deref(), compression.timeout), (Some("sm"), Duration::from_mins(2)));
    let by_env = AuxiliaryTaskSettings::resolve(&loaded, &env(&[("AUXILIARY_VISION_MODEL", "v")]), "vision");
    assert_eq!(by_env.model.as_deref(), Some("v"));
    let shown = format!("{endpoints:?} {:?} {loaded:?}", DelegationSettings::from_config(&loaded));
    assert!(!shown.contains("sk-secret") && !shown.contains("hidden-key"), "secrets stay out of Debug");
}

#[test]
fn mcp_servers_are_typed() {
    let loaded = config(
        "mcp_servers:\n  a: {command: npx, args: [-y, pkg], env: {TOKEN: '${T}'}, tools: {include: [x], exclude: [y]}}\n  \
         b: {url: 'https://h/mcp', headers: {Authorization: 'Bearer ${T}'}, auth: oauth, enabled: 'no', timeout: 5}\n  \
         c: {enabled: true}\n",
        &[("T", "tok-secret")],
    );
    let servers = McpServer::all(&loaded);
    assert_eq!(servers.len(), 2, "an entry without command or url is left out");
    let McpTransport::Stdio { env, .. } = &servers[0].transport else { panic!("stdio") };
    assert_eq!(env[0], ("TOKEN".into(), "tok-secret".into()));
    assert_eq!(servers[0].include.as_deref(), Some(&["x".to_owned()][..]));
    assert!(servers[0].enabled && !servers[1].enabled);
    assert_eq!(servers[1].timeout, Duration::from_secs(5));
    assert!(!format!("{servers:?}").contains("tok-secret"));
}

/// Shows that a bad number is reported, but only where the backend reads it.
#[test]
fn bad_terminal_numbers_are_named_for_the_backend_that_reads_them() {
    let problems = |pairs: &[(&str, &str)]| TerminalSettings::resolve(&config("", &[]), &env(pairs)).problems;
    for (backend, name, named) in [
        ("local", "TERMINAL_TIMEOUT", true),
        ("local", "TERMINAL_CONTAINER_MEMORY", false),
        ("local", "TERMINAL_SSH_PORT", false),
        ("docker", "TERMINAL_CONTAINER_MEMORY", true),
        ("docker", "TERMINAL_CONTAINER_CPU", true),
        ("docker", "TERMINAL_SSH_PORT", false),
        ("ssh", "TERMINAL_SSH_PORT", true),
        ("ssh", "TERMINAL_CONTAINER_DISK", false),
    ] {
        let found = problems(&[("TERMINAL_ENV", backend), (name, "5m")]);
        assert_eq!(found.len(), usize::from(named), "{backend} {name}");
        assert!(found.iter().all(|text| text.contains(name) && text.contains("`5m`")), "{found:?}");
    }
    assert_eq!(problems(&[("TERMINAL_ENV", "ssh"), ("TERMINAL_SSH_PORT", "70000")]).len(), 1);
    assert!(problems(&[("TERMINAL_TIMEOUT", "5"), ("TERMINAL_SSH_PORT", "22")]).is_empty());
    let file = TerminalSettings::resolve(
        &config("terminal: {backend: local}\n", &[]),
        &env(&[("TERMINAL_TIMEOUT", "5m")]),
    );
    assert!(file.problems.is_empty(), "the file decides, the variable is not read");
}

#[test]
fn lists_come_as_json_and_modal_has_a_mode() {
    use hermes_config::settings::ModalMode;
    let of = |pairs: &[(&str, &str)]| TerminalSettings::resolve(&config("", &[]), &env(pairs));
    assert_eq!(of(&[("TERMINAL_DOCKER_FORWARD_ENV", r#"["A","B"]"#)]).docker_forward_env, ["A", "B"]);
    assert_eq!(of(&[("TERMINAL_DOCKER_VOLUMES", "/a:/b,/c:/d:ro")]).docker_volumes, ["/a:/b", "/c:/d:ro"]);
    let modal = |mode| of(&[("TERMINAL_ENV", "modal"), ("TERMINAL_MODAL_MODE", mode)]);
    assert_eq!(of(&[("TERMINAL_ENV", "modal")]).modal_mode, ModalMode::Auto);
    for (given, mode) in
        [("auto", ModalMode::Auto), ("direct", ModalMode::Direct), ("managed", ModalMode::Managed)]
    {
        assert_eq!((modal(given).modal_mode, modal(given).problems), (mode, Vec::<String>::new()));
    }
    let misspelt =
        "terminal.modal_mode (or TERMINAL_MODAL_MODE) is `mine`; it can be auto, direct or managed";
    assert_eq!(modal("mine").problems, [misspelt]);
    assert!(
        of(&[("TERMINAL_MODAL_MODE", "mine")]).problems.is_empty(),
        "another backend does not ask for it"
    );
    let file = |mode: &str| {
        let text = format!("terminal: {{backend: modal, modal_mode: {mode}}}\n");
        TerminalSettings::resolve(&config(&text, &[]), &env(&[("TERMINAL_MODAL_MODE", "managed")]))
    };
    assert_eq!(file("direct").modal_mode, ModalMode::Direct);
    assert_eq!(file("mine").problems, [misspelt]);
    for (given, kept) in [(".", None), ("auto", None), ("cwd", None), ("/srv", Some("/srv"))] {
        assert_eq!(of(&[("TERMINAL_CWD", given)]).cwd.as_deref(), kept);
    }
}
