//! `hermes login` and `logout`: signs in to a provider with a code that is confirmed in a browser.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use hermes_config::auth::AuthFile;
use hermes_config::{Env, ProgramSurface, set};
use hermes_exec::{Program, ProgramRunner, StderrMode};
use hermes_model::credential::nous::{NousLoginOptions, TlsOverrides};
use hermes_model::credential::{
    CredentialContext, SignInError, SignInProgress, SignInProvider, login, login_to_nous, logout,
};
use hermes_model::provider::{ProviderChoice, ProviderInputs, resolve};
use hermes_net::{CertificateVerification, HttpClient};
use hermes_task::SystemClock;
use hermes_types::{Cancel, Clock};

use super::chat::signals::ChatSignals;
use crate::cli::LoginArguments;
use crate::context::ProgramContext;
use crate::output::Console;
use crate::wiring;

pub(crate) fn run(
    arguments: &LoginArguments,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    context.usable_config(output)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let net = HttpClient::new(wiring::net_config(&context.env, &clock))?;
    let means = CredentialContext::new(net, clock.clone(), &context.home, context.env.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    let cancel = Cancel::new();
    let opener = (!arguments.sign_in.no_browser).then(|| Opener::here(&context.env, &clock)).flatten();
    let done = runtime.block_on(async {
        let mut signals = ChatSignals::listen()?;
        let limit = arguments.sign_in.timeout.map_or(Duration::MAX, Duration::from_secs);
        tokio::select! {
            biased;
            _ = signals.next() => Ok(Err(LoginFailure::Cancelled)),
            done = sign_in(arguments, &means, &cancel, opener.as_ref()) => Ok::<_, anyhow::Error>(done.map_err(LoginFailure::SignIn)),
            () = tokio::time::sleep(limit) => Ok(Err(LoginFailure::TimedOut)),
        }
    })?;
    cancel.cancel();
    match done {
        Ok(which) => {
            set::set(&context.home, &context.env, "model.provider", which.provider())?;
            output.line(&format!("Signed in to {}.", which.provider()));
            show_next_steps(context, output);
            Ok(ExitCode::SUCCESS)
        }
        Err(LoginFailure::Cancelled) => {
            output.line("Login cancelled.");
            Ok(ExitCode::from(130))
        }
        Err(LoginFailure::TimedOut) => {
            output.error("Login failed: the code was not confirmed in time");
            Ok(ExitCode::FAILURE)
        }
        Err(LoginFailure::SignIn(error)) => {
            output.error(&format!("Login failed: {error}"));
            Ok(ExitCode::FAILURE)
        }
    }
}

/// The reason why a sign-in failed.
enum LoginFailure {
    Cancelled,
    TimedOut,
    SignIn(SignInError),
}

/// Limits the opener's run time. A browser it has to start keeps running as its child process.
const OPEN_FOR: Duration = Duration::from_mins(15);

/// Opens URLs in the user's browser.
pub(crate) struct Opener {
    programs: ProgramRunner,
    program: &'static str,
}

impl Opener {
    /// Returns `None` where there is no display, for example over SSH or on a server.
    pub(crate) fn here(env: &Env, clock: &Arc<dyn Clock>) -> Option<Self> {
        let is_set = |name: &str| env.get(name).is_some_and(|value| !value.is_empty());
        if is_set("SSH_CONNECTION") || is_set("SSH_TTY") {
            return None;
        }
        let program = if cfg!(target_os = "macos") {
            "open"
        } else if is_set("DISPLAY") || is_set("WAYLAND_DISPLAY") {
            "xdg-open"
        } else {
            return None;
        };
        Some(Self { programs: ProgramRunner::new(wiring::child_variables(env, &[]), clock.clone()), program })
    }

    /// Opens a URL in the background; the URL is on the screen in any case.
    pub(crate) fn open(&self, url: &str) {
        let (programs, name, url) = (self.programs.clone(), self.program, url.to_owned());
        drop(hermes_task::spawn_named("opening a browser", &Cancel::new(), async move {
            let directory = std::path::Path::new("/");
            let complaints = StderrMode::Discard;
            let arguments = vec![url.into()];
            let program = Program { name, arguments, directory, limit: OPEN_FOR, stderr: complaints };
            if let Err(error) = programs.output(program, &Cancel::new()).await {
                tracing::debug!(%error, "no browser was opened");
            }
        }));
    }
}

async fn sign_in(
    arguments: &LoginArguments,
    means: &CredentialContext,
    cancel: &Cancel,
    opener: Option<&Opener>,
) -> Result<SignInProvider, SignInError> {
    let watch = |progress| {
        let output = Console::new();
        match progress {
            SignInProgress::Code { url, complete_url, user_code, expires_in } => {
                let address = complete_url.as_deref().unwrap_or(&url);
                output.line(&format!("Open {address}"));
                if let Some(opener) = opener {
                    opener.open(address);
                }
                output.line(&format!("and enter this code: {user_code}"));
                output.line(&format!("Waiting for up to {} minutes…", expires_in.as_secs().div_ceil(60)));
            }
            SignInProgress::Confirmed => output.line("Confirmed."),
            SignInProgress::Note(note) => output.notice(&note),
        }
    };
    if SignInProvider::of(&arguments.provider) != Some(SignInProvider::Nous) {
        return login(means, &arguments.provider, &watch, cancel).await;
    }
    let given = &arguments.sign_in;
    let verification =
        if given.insecure { CertificateVerification::Skipped } else { CertificateVerification::Required };
    let options = NousLoginOptions {
        portal_url: given.portal_url.clone(),
        inference_url: given.inference_url.clone(),
        client_id: given.client_id.clone(),
        scope: given.scope.clone(),
        tls: TlsOverrides { ca_bundle: given.ca_bundle.clone(), verification },
    };
    login_to_nous(means, &options, &watch, cancel).await?;
    Ok(SignInProvider::Nous)
}

pub(crate) fn sign_out(
    provider: Option<&str>,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    let active = AuthFile::new(&context.home).read().active_provider().map(str::to_owned);
    let Some(provider) = provider.map(str::to_owned).or(active) else {
        output.line("No provider is currently logged in.");
        return Ok(ExitCode::SUCCESS);
    };
    if logout(&context.home, &context.env, &provider)? {
        output.line(&format!("Logged out of {provider}."));
        show_next_steps(context, output);
    } else {
        output.line(&format!("No auth state found for {provider}."));
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints which model is active now.
fn show_next_steps(context: &ProgramContext, output: &Console) {
    let config = hermes_config::Config::load(&context.home, &context.env);
    let facts = ProviderInputs::read(&context.home, config, context.env.clone());
    match resolve(&facts, &ProviderChoice::default(), ProgramSurface::Cli) {
        Ok(resolved) => {
            output.line(&format!("Provider in use: {}. Choose a model: hermes model", resolved.provider()));
        }
        Err(error) => output.notice(&error.to_string()),
    }
}
