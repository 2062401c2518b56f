//! Starts a browser on this machine.
//!
//! Finds the program, composes its arguments, gives it a profile that is thrown away. The browser is driven through pipes:
//! nothing else on the machine can reach it. Invariant: it ends with Hermes, and so does its profile.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hermes_exec::{Program, ProgramRunner, StderrMode, Variables, remove_on_exit};
use hermes_types::Clock;

use crate::connection::{CdpTransport, LARGEST_MESSAGE};
use crate::error::BrowserError;

/// The names of programs that speak the protocol, best first.
const PROGRAMS: [&str; 9] = [
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
    "chrome",
    "google-chrome-beta",
    "microsoft-edge-stable",
    "microsoft-edge",
    "brave-browser",
];

/// Where macOS keeps them.
const APPLICATIONS: [&str; 4] = [
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    "/Applications/Brave Browser.app/Contents/MacOS/Brave Browser",
];

/// The longest path of the temporary folder: 108 bytes for a socket, less what is added to it.
const LONGEST_TEMP: usize = 34;

/// What only costs time, memory or privacy in a browser that a program drives.
const UNWANTED: &str = "--disable-features=Translate,MediaRouter,OptimizationHints,DialMediaRouteProvider,\
                        AutofillServerCommunication,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable,WebUIOmniboxPopup,\
                        WebUIOmniboxAimPopup,WebUIOmniboxFullPopup";

/// How to start a browser on this machine.
#[derive(Debug, Clone)]
pub struct LocalBrowserOptions {
    /// The name or path of the program; `None` for the first that is found.
    pub program: Option<String>,
    pub window: WindowMode,
    pub variables: Variables,
    /// The folder in which the profile is created.
    pub temp: PathBuf,
    /// The address of the proxy that the user configured; without one, the browser uses the checking proxy.
    pub proxy: Option<String>,
}

/// Tells whether people see the browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowMode {
    Headless,
    Visible,
}

/// The folder of a profile, which is removed when the value is dropped.
#[derive(Debug)]
pub(crate) struct ProfileFolder(PathBuf);

impl Drop for ProfileFolder {
    fn drop(&mut self) {
        // Whatever is still being written there is removed when Hermes ends.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl LocalBrowserOptions {
    /// Returns the path of the browser, if there is one.
    pub fn find(&self, clock: &Arc<dyn Clock>) -> Option<PathBuf> {
        let runner = ProgramRunner::new(self.variables.clone(), clock.clone());
        match &self.program {
            Some(name) => names(name).iter().find_map(|name| runner.find(name)),
            None => PROGRAMS
                .iter()
                .find_map(|name| runner.find(name))
                .or_else(|| APPLICATIONS.iter().map(PathBuf::from).find(|path| path.is_file())),
        }
    }

    /// Starts the browser behind a proxy.
    pub(crate) async fn start(
        &self,
        proxy: &str,
        clock: &Arc<dyn Clock>,
    ) -> Result<CdpTransport, BrowserError> {
        let found = self.find(clock).ok_or_else(|| BrowserError::Unavailable(self.missing()))?;
        let folder = remove_on_exit(short(&self.temp), "hb-");
        make_private(&folder).map_err(|error| {
            BrowserError::Unavailable(format!("{}: {error}; the browser was not started", folder.display()))
        })?;
        let profile = ProfileFolder(folder.clone());
        let variables = self.variables.clone().with("TMPDIR", &folder.to_string_lossy());
        let runner = ProgramRunner::new(variables, clock.clone());
        let name = found.to_string_lossy();
        let program = Program {
            name: &name,
            arguments: self.arguments(&folder, proxy),
            directory: &folder,
            limit: Duration::MAX,
            stderr: StderrMode::Merge,
        };
        let started = runner.framed(program, LARGEST_MESSAGE).await;
        let process = started.map_err(|error| BrowserError::Unavailable(format!("{name}: {error}")))?;
        Ok(CdpTransport::Pipe(Box::new(process), profile))
    }

    fn arguments(&self, profile: &Path, proxy: &str) -> Vec<OsString> {
        let mut folder = OsString::from("--user-data-dir=");
        folder.push(profile);
        let mut arguments: Vec<OsString> = vec![folder];
        let fixed = [
            "--remote-debugging-pipe",
            "--no-first-run",
            "--no-default-browser-check",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-default-apps",
            "--disable-extensions",
            "--disable-sync",
            "--disable-quic",
            "--disable-breakpad",
            "--disable-dev-shm-usage",
            "--disable-background-timer-throttling",
            "--disable-renderer-backgrounding",
            "--metrics-recording-only",
            "--mute-audio",
            "--password-store=basic",
            "--use-mock-keychain",
            "--window-size=1280,900",
            // Without a proxy for it, this would reach addresses that nobody has checked.
            "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
            UNWANTED,
        ];
        arguments.extend(fixed.map(OsString::from));
        arguments.push(format!("--proxy-server={proxy}").into());
        // Otherwise addresses of this machine would not pass the proxy.
        arguments.push("--proxy-bypass-list=<-loopback>".into());
        if self.window == WindowMode::Headless {
            arguments.extend(["--headless=new", "--disable-gpu"].map(OsString::from));
        }
        if is_root() {
            arguments.push("--no-sandbox".into());
        }
        arguments.push("about:blank".into());
        arguments
    }

    fn missing(&self) -> String {
        match &self.program {
            Some(name) => format!("browser.engine: there is no program `{name}`"),
            None => {
                "no browser was found. Install Chromium, Chrome or Edge, or set browser.cdp_url".to_owned()
            }
        }
    }
}

/// Returns a folder for profiles whose path is short enough for the socket that the browser creates below it.
fn short(temp: &Path) -> &Path {
    if temp.as_os_str().len() <= LONGEST_TEMP { temp } else { Path::new("/tmp") }
}

/// Tells whether a browser started here has to run without its own sandbox, which refuses to work for root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns the programs that a name of the configuration stands for.
fn names(name: &str) -> Vec<&str> {
    match name {
        "chromium" => PROGRAMS.iter().take(2).copied().collect(),
        "chrome" => {
            PROGRAMS.iter().skip(2).take(4).copied().chain(APPLICATIONS.iter().take(1).copied()).collect()
        }
        "edge" => PROGRAMS
            .iter()
            .skip(6)
            .take(2)
            .copied()
            .chain(APPLICATIONS.iter().skip(2).take(1).copied())
            .collect(),
        other => vec![other],
    }
}

fn make_private(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
