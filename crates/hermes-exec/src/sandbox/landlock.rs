//! The sandbox's rules for files, as Landlock rules.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, Scope,
};

use super::allowed_paths::AllowedPaths;
use super::stores::DEVICES;

/// The Landlock version whose rights are restricted; those that a kernel does not know are left out.
const VERSION: ABI = ABI::V3;

/// Tells whether the kernel supports Landlock; checked once.
pub(super) fn is_possible() -> bool {
    static POSSIBLE: LazyLock<bool> = LazyLock::new(|| version() >= 1);
    *POSSIBLE
}

fn version() -> i64 {
    const ASK_VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the call takes no memory and only returns a number.
    #[expect(unsafe_code, reason = "the crate does not tell without making rules")]
    unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0usize,
            ASK_VERSION,
        )
    }
}

/// Returns the rules of a sandbox, as a descriptor that a child can enter.
pub(super) fn rules(openings: &AllowedPaths, own_devices: Option<&Path>) -> Result<OwnedFd, String> {
    let failed = |error: landlock::RulesetError| error.to_string();
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(VERSION))
        // This denies abstract sockets of programs outside the sandbox, and signals to them.
        .and_then(|rules| rules.scope(Scope::AbstractUnixSocket | Scope::Signal))
        .and_then(Ruleset::create)
        .map_err(failed)?;
    // File names are not secret, and a program that is not readable can still be executed by its owner.
    let mut rules = add(rules, Path::new("/"), AccessFs::ReadDir | AccessFs::Execute)?;
    for part in &openings.readable {
        rules = add(rules, part, AccessFs::ReadFile.into())?;
    }
    for part in &openings.writable {
        rules = add(rules, part, AccessFs::from_all(VERSION))?;
    }
    for device in DEVICES.iter().map(PathBuf::from).filter(|device| device.exists()) {
        rules = add(rules, &device, AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::from_file(VERSION))?;
        if device.is_dir() {
            rules = add(rules, &device, AccessFs::from_all(VERSION))?;
        }
    }
    if let Some(folder) = own_devices {
        // A terminal that a program allocates appears in this folder later.
        rules = add(rules, folder, AccessFs::ReadFile | AccessFs::WriteFile)?;
    }
    Option::<OwnedFd>::from(rules).ok_or_else(|| "the kernel made no rules".to_owned())
}

/// Adds a rule. A path that vanished since it was listed, or cannot be opened, needs no rule.
fn add(rules: RulesetCreated, path: &Path, rights: BitFlags<AccessFs>) -> Result<RulesetCreated, String> {
    let Ok(opened) = PathFd::new(path) else { return Ok(rules) };
    let rights = if path.is_dir() { rights } else { rights & AccessFs::from_file(VERSION) };
    rules.add_rule(PathBeneath::new(opened, rights)).map_err(|error| error.to_string())
}

/// Puts the calling thread and the processes it starts under the rules. Makes only system calls.
pub(super) fn enter(rules: BorrowedFd<'_>) -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    // SAFETY: the call takes two numbers and touches no memory.
    #[expect(unsafe_code, reason = "the crate's way allocates, which a forked child must not")]
    let entered = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0) };
    if entered == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
