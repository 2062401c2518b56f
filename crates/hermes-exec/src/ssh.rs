//! Runs commands on another machine through the `ssh` program.
//!
//! All calls share one connection, kept by a control socket of this process in a private folder. `ssh` never
//! prompts: a login that needs a password fails. The key of a new host is recorded, a changed key is refused.
//! A connection that breaks while a command runs ends that call with a notice; the command may have had its
//! effect, so it is not repeated. The next call connects again and removes the files that shells with a
//! broken connection left on the machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hermes_types::{
    BoxFuture, Cancel, Clock, CommandOutput, Environment, RunError, ShellCommand, random_hex,
};
use tokio::sync::Mutex;

use crate::capture::OutputBounds;
use crate::child::{Launch, StdioMode};
use crate::credential::CredentialFiles;
use crate::leftovers::{Leftover, Leftovers};
use crate::remote::{
    CallResult, CliError, CliTransport, ClientProgram, CommandForm, ForwardedVariables, INTERRUPTED,
    INTERRUPTED_NOTE, PerTaskCache, ProgramLookup, RemoteEnvironment, RemoteShell, ShellHost, find_program,
    fnv, lock_unless_cancelled, removal_line,
};
use crate::remote_backend::{Backend, HostExposure, uploader};
use crate::variables::Variables;

const PROBE_LIMIT: Duration = Duration::from_secs(15);
const CONTROL_LIMIT: Duration = Duration::from_secs(5);
/// Limits how many leftover files are removed at once.
const MOST_REMOVED: usize = 100;
/// The exit code of ssh itself when there is no connection.
const NO_CONNECTION: i32 = 255;
/// The longest path of the control socket. Unix sockets have short names, shortest on macOS (104); ssh adds
/// 17 characters while it creates one.
const LONGEST_SOCKET: usize = 104 - 18;

const WITHOUT_TERMINAL: &[&str] = &["-T"];
/// The options that allocate a terminal whatever the local one is, and turn off the escape character of ssh.
const ON_TERMINAL: &[&str] = &["-tt", "-e", "none"];

/// Describes another machine and how to log in there.
#[derive(Debug, Clone)]
pub struct SshOptions {
    pub host: String,
    pub user: String,
    pub port: u16,
    pub key: Option<PathBuf>,
    /// The folder in which commands begin; `~` if `None`.
    pub directory: Option<String>,
    /// The variables for commands.
    pub exports: ForwardedVariables,
    /// The file that replaces the user's own list of known hosts.
    pub known_hosts: Option<PathBuf>,
    /// The folder in which the folder of the control socket is created. Its path should be short.
    pub temp: PathBuf,
    pub bounds: OutputBounds,
}

/// A connection to another machine, shared by its tasks.
#[derive(Debug)]
pub struct SshHost {
    options: SshOptions,
    cli: ClientProgram,
    socket: PathBuf,
    leftovers: Leftovers,
    /// A lock held while the connection is made.
    connected: Mutex<ConnectionState>,
    tasks: PerTaskCache<SshEnvironment>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionState {
    Open,
    Closed,
}

impl SshHost {
    /// Creates the host without starting a process: the connection is made at the first command.
    pub fn new(
        options: SshOptions,
        variables: Variables,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, RunError> {
        for (what, value) in [("terminal.ssh_host", &options.host), ("terminal.ssh_user", &options.user)] {
            if value.is_empty() || value.chars().any(|c| c.is_whitespace() || c.is_control()) {
                return Err(RunError::Unavailable(format!("{what} is missing or is no name")));
            }
        }
        let program = match find_program(&["ssh"], &variables, &["/usr/bin", "/usr/local/bin"]) {
            ProgramLookup::Program(program) => program,
            ProgramLookup::NotExecutable(_) | ProgramLookup::Missing => {
                return Err(RunError::Unavailable(
                    "no ssh program was found; install the OpenSSH client".to_owned(),
                ));
            }
        };
        let socket = socket_path(&options, &random_hex(6));
        let folder = socket.parent().unwrap_or(&options.temp);
        let left = Leftovers::new(folder, format!("{:016x}", fnv(&name(&options))));
        let cli = ClientProgram { program, variables, clock };
        Ok(Arc::new(Self {
            options,
            cli,
            socket,
            leftovers: left,
            connected: Mutex::new(ConnectionState::Closed),
            tasks: PerTaskCache::default(),
        }))
    }

    /// Opens the task's environment on the machine; all callers that name the same task share one as long as
    /// any of them holds it.
    pub fn open(self: &Arc<Self>, task: &str) -> Arc<SshEnvironment> {
        self.tasks.get_or_create(task, || SshEnvironment { host: Arc::clone(self), shell: self.new_shell() })
    }

    /// Removes the files that the tasks' shells left on the machine and ends the connection.
    pub async fn close(&self) {
        for task in self.tasks.all() {
            task.close().await;
        }
        let mut connected = self.connected.lock().await;
        if *connected == ConnectionState::Open {
            *connected = ConnectionState::Closed;
            let _ = self.control("exit").await;
        }
        let _ = std::fs::remove_file(&self.socket);
    }

    /// Connects if there is no connection. The first command line over it does nothing, or removes the files
    /// that earlier shells left.
    async fn connect(&self, cancel: &Cancel) -> Result<(), CliError> {
        let mut connected =
            lock_unless_cancelled(&self.connected, cancel).await.ok_or(CliError::Interrupted)?;
        if *connected == ConnectionState::Open {
            return Ok(());
        }
        make_private(&self.socket).map_err(|error| CliError::Refused(error.to_string()))?;
        let left: Vec<Leftover> = self.leftovers.orphaned().into_iter().take(MOST_REMOVED).collect();
        let mut words = self.client_arguments();
        words.push(if left.is_empty() {
            "true".to_owned()
        } else {
            removal_line(left.iter().map(|left| left.id.as_str()))
        });
        let said = self.cli.run(&words, None, PROBE_LIMIT, cancel).await?;
        // The exit code of the line belongs to the remote shell; only 255 comes from ssh itself.
        if said.code == NO_CONNECTION {
            return Err(CliError::Refused(said.text));
        }
        left.into_iter().for_each(Leftover::mark_removed);
        *connected = ConnectionState::Open;
        Ok(())
    }

    /// Tells whether the shared connection still exists.
    async fn is_connected(&self) -> bool {
        self.control("check").await.is_ok_and(|code| code == 0)
    }

    async fn mark_disconnected(&self) {
        let mut connected = self.connected.lock().await;
        if *connected == ConnectionState::Open {
            let _ = self.control("exit").await;
            let _ = std::fs::remove_file(&self.socket);
            *connected = ConnectionState::Closed;
        }
    }

    async fn control(&self, order: &str) -> Result<i32, CliError> {
        let words = self.client_arguments();
        let mut all = vec!["-O".to_owned(), order.to_owned()];
        all.extend(words);
        Ok(self.cli.run(&all, None, CONTROL_LIMIT, &Cancel::new()).await?.code)
    }

    fn transport(&self) -> CliTransport {
        CliTransport {
            cli: self.cli.clone(),
            prefix_arguments: self.client_arguments(),
            form: CommandForm::ShellLine,
        }
    }

    fn client_arguments(&self) -> Vec<String> {
        ssh_arguments(&self.options, &self.socket, WITHOUT_TERMINAL)
    }
}

/// A task's environment on another machine.
#[derive(Debug)]
pub struct SshEnvironment {
    host: Arc<SshHost>,
    shell: RemoteShell,
}

impl Backend for Arc<SshHost> {
    fn open(&self, _: &str, credentials: &CredentialFiles) -> RemoteEnvironment {
        RemoteEnvironment::new(Self::clone(self) as Arc<_>, Some(uploader(credentials)))
    }

    fn is_single_machine(&self) -> bool {
        true
    }

    fn host_exposure(&self) -> HostExposure {
        HostExposure::UserFiles
    }
}

impl SshEnvironment {
    /// Returns the folder in which the next command starts.
    pub fn directory(&self) -> String {
        self.shell.directory()
    }

    /// Removes the files that the task's shell left on the machine. The connection stays for other tasks.
    pub async fn close(&self) {
        self.host.clean(&self.shell).await;
    }
}

impl SshHost {
    async fn clean(&self, shell: &RemoteShell) {
        let connected = *self.connected.lock().await;
        if connected == ConnectionState::Open && shell.clean(&self.transport(), &self.options.host).await {
            self.leftovers.forget(shell.id());
        } else {
            self.leftovers.mark_abandoned(shell.id());
        }
    }

    async fn execute(
        &self,
        shell: &RemoteShell,
        command: ShellCommand<'_>,
        cancel: &Cancel,
    ) -> Result<CommandOutput, RunError> {
        let mut again = true;
        loop {
            match self.connect(cancel).await {
                Ok(()) => {}
                Err(CliError::Interrupted) => {
                    return Ok(CommandOutput { output: INTERRUPTED_NOTE.to_owned(), exit_code: INTERRUPTED });
                }
                Err(CliError::TimedOut(limit)) => {
                    let text = format!("SSH connection timed out after {} s", limit.as_secs());
                    return Err(RunError::Unavailable(text));
                }
                Err(error) => return Err(RunError::Unavailable(format!("SSH connection failed: {error}"))),
            }
            self.leftovers.add(shell.id());
            match shell.call(&self.transport(), &self.options.host, command, cancel).await? {
                CallResult::Finished(finished) => return Ok(finished),
                // The connection was lost before the command was sent, so the command may be sent again.
                CallResult::NotStarted { code: NO_CONNECTION, .. } if again && !self.is_connected().await => {
                    self.mark_disconnected().await;
                    again = false;
                }
                CallResult::NotStarted { code: NO_CONNECTION, said } => {
                    self.mark_disconnected().await;
                    return Err(RunError::Unavailable(format!("SSH connection failed: {said}")));
                }
                CallResult::NotStarted { said, code } => {
                    let text = format!(
                        "no bash could be started on {} (exit code {code}): {said}",
                        self.options.host
                    );
                    return Err(RunError::Unavailable(text));
                }
                CallResult::Unfinished { mut output, code } => {
                    if code == NO_CONNECTION && !self.is_connected().await {
                        self.mark_disconnected().await;
                        output.push_str(
                            "\n[The SSH connection was lost while the command was running. It may have gone on or \
                             stopped; look before you repeat it. The next command reconnects.]",
                        );
                    }
                    return Ok(CommandOutput { output, exit_code: code });
                }
            }
        }
    }
}

impl Environment for SshEnvironment {
    fn run<'a>(
        &'a self,
        command: ShellCommand<'a>,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<CommandOutput, RunError>> {
        Box::pin(self.host.execute(&self.shell, command, cancel))
    }
}

impl ShellHost for SshHost {
    fn new_shell(&self) -> RemoteShell {
        let start = self.options.directory.as_deref().unwrap_or("~");
        RemoteShell::new(start, &self.options.exports, self.options.bounds)
    }

    fn run_in<'a>(
        &'a self,
        shell: &'a RemoteShell,
        command: ShellCommand<'a>,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<CommandOutput, RunError>> {
        Box::pin(self.execute(shell, command, cancel))
    }

    fn terminal_launch(&self, line: &str) -> Option<Launch> {
        let mut words = ssh_arguments(&self.options, &self.socket, ON_TERMINAL);
        words.push(line.to_owned());
        Some(self.cli.launch(&words, StdioMode::Terminal))
    }

    fn clean_up<'a>(&'a self, shell: &'a RemoteShell) -> BoxFuture<'a, ()> {
        Box::pin(self.clean(shell))
    }

    fn instance_id(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(std::future::ready(Some(self.options.host.clone())))
    }

    fn shut_down(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.close())
    }
}

/// Returns the arguments before the command. The host is passed so that its name is never read as an option.
fn ssh_arguments(options: &SshOptions, socket: &Path, terminal: &[&str]) -> Vec<String> {
    let mut words = Vec::new();
    let mut set = |option: String| words.extend(["-o".to_owned(), option]);
    set(format!("ControlPath={}", socket.display()));
    set("ControlMaster=auto".to_owned());
    set("ControlPersist=300".to_owned());
    set("BatchMode=yes".to_owned());
    set("StrictHostKeyChecking=accept-new".to_owned());
    set("ConnectTimeout=10".to_owned());
    // With this, a silent connection is noticed within a minute.
    set("ServerAliveInterval=15".to_owned());
    set("ServerAliveCountMax=3".to_owned());
    set("LogLevel=ERROR".to_owned());
    if let Some(file) = &options.known_hosts {
        set(format!("UserKnownHostsFile={}", file.display()));
    }
    words.extend(terminal.iter().map(|&word| word.to_owned()));
    if options.port != 22 {
        words.extend(["-p".to_owned(), options.port.to_string()]);
    }
    if let Some(key) = &options.key {
        words.extend(["-i".to_owned(), key.display().to_string()]);
    }
    words.extend(["--".to_owned(), format!("{}@{}", options.user, options.host)]);
    words
}

fn name(options: &SshOptions) -> String {
    format!("{}@{}:{}", options.user, options.host, options.port)
}

/// Returns the path of a socket of this process: another Hermes process that ends must not end this
/// connection.
fn socket_path(options: &SshOptions, own: &str) -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    let name = name(options);
    let folder = format!("hermes-ssh-{user}");
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '@' | ':' | '.' | '-' | '_'));
    let long = options.temp.join(&folder).join(format!("{name}-{own}.sock"));
    if plain && long.as_os_str().len() <= LONGEST_SOCKET {
        return long;
    }
    let file = format!("{:016x}-{own}.sock", fnv(&name));
    let short = options.temp.join(&folder).join(&file);
    if short.as_os_str().len() <= LONGEST_SOCKET && !short.to_string_lossy().contains(['%', ' ', '"', '\'']) {
        return short;
    }
    Path::new("/tmp").join(folder).join(file)
}

/// Makes the folder of the socket accessible to this user only, because a user who may enter it may use the
/// connection.
fn make_private(socket: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
    let Some(folder) = socket.parent() else { return Ok(()) };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let found = std::fs::symlink_metadata(folder)?;
    if !found.is_dir()
        || found.uid() != rustix::process::geteuid().as_raw()
        || found.permissions().mode() & 0o077 != 0
    {
        return Err(std::io::Error::other(format!(
            "{} is not a private folder of this user",
            folder.display()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(host: &str, port: u16, key: Option<&str>) -> SshOptions {
        SshOptions {
            host: host.to_owned(),
            user: "me".to_owned(),
            port,
            key: key.map(PathBuf::from),
            directory: None,
            exports: ForwardedVariables::default(),
            known_hosts: None,
            temp: PathBuf::from("/tmp"),
            bounds: OutputBounds::default(),
        }
    }

    fn check(options: &SshOptions, rest: &str) {
        let start = "-o ControlPath=/s -o ControlMaster=auto -o ControlPersist=300 -o BatchMode=yes \
            -o StrictHostKeyChecking=accept-new -o ConnectTimeout=10 -o ServerAliveInterval=15 \
            -o ServerAliveCountMax=3 -o LogLevel=ERROR";
        assert_eq!(
            ssh_arguments(options, Path::new("/s"), WITHOUT_TERMINAL).join(" "),
            format!("{start} {rest}")
        );
    }

    #[test]
    fn port_and_key_are_named_where_they_differ() {
        check(&options("box", 22, None), "-T -- me@box");
        check(&options("box", 2222, Some("/k")), "-T -p 2222 -i /k -- me@box");
        let known = SshOptions { known_hosts: Some(PathBuf::from("/kh")), ..options("box", 22, None) };
        check(&known, "-o UserKnownHostsFile=/kh -T -- me@box");
    }

    #[test]
    fn the_socket_has_a_short_name() {
        let short = socket_path(&options("box", 22, None), "ab");
        assert!(short.ends_with("me@box:22-ab.sock"), "{}", short.display());
        for odd in [&"x".repeat(200), "bo%x", "a b"] {
            let path = socket_path(&options(odd, 22, None), "ab");
            assert!(
                path.as_os_str().len() <= LONGEST_SOCKET && !path.to_string_lossy().contains(['%', ' ']),
                "{}",
                path.display()
            );
        }
        let deep = SshOptions { temp: PathBuf::from("/").join("t".repeat(90)), ..options("box", 22, None) };
        assert!(socket_path(&deep, "ab").starts_with("/tmp"));
    }
}
