//! A filter for system calls that a sandboxed command does not need: inspecting other processes, mounting,
//! kernel modules, keys, new namespaces, files that run as their owner, and, where the network is off, every
//! socket but those of this machine.
//!
//! They return "not permitted" instead of ending the program. `clone3` returns "not implemented", because the
//! filter cannot read its flags; every libc then uses `clone`, whose flags it can read. Programs of another
//! architecture are not run at all.

use std::collections::BTreeMap;
use std::io;
use std::sync::LazyLock;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

use super::NetworkReach;

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: Option<TargetArch> = Some(TargetArch::x86_64);
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: Option<TargetArch> = Some(TargetArch::aarch64);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ARCHITECTURE: Option<TargetArch> = None;

const REFUSED: &[libc::c_long] = &[
    // Access to other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Changes to the mounts.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    // Changes to the kernel.
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    // Access to keys that the kernel holds.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_setns,
    // This interface makes other calls that the filter does not see.
    libc::SYS_io_uring_setup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// The flags that create a namespace, in which a program has rights that it lacks outside.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// Returns the filters that a child enters; they are made once.
pub(super) fn filters(reach: NetworkReach) -> &'static [BpfProgram] {
    static WITH_NETWORK: LazyLock<Vec<BpfProgram>> =
        LazyLock::new(|| build_filters(NetworkReach::Everywhere));
    static WITHOUT: LazyLock<Vec<BpfProgram>> = LazyLock::new(|| build_filters(NetworkReach::ThisMachine));
    match reach {
        NetworkReach::Everywhere => &WITH_NETWORK,
        NetworkReach::ThisMachine => &WITHOUT,
    }
}

/// Denies these calls to the calling thread and the processes it starts. Makes only system calls.
pub(super) fn enter(filters: &[BpfProgram]) -> io::Result<()> {
    for filter in filters {
        // An error may own memory, which a forked child must neither allocate nor free, so only the error
        // number is returned.
        if seccompiler::apply_filter(filter).is_err() {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
    }
    Ok(())
}

fn build_filters(reach: NetworkReach) -> Vec<BpfProgram> {
    let unknown = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let parts = rules(reach).ok().and_then(|rules| {
        let refusing = compile(rules, libc::EPERM)?;
        let denying = compile(unknown, libc::ENOSYS)?;
        Some(vec![refusing, denying])
    });
    parts.unwrap_or_else(|| {
        tracing::warn!("no filter of system calls could be made for this processor");
        Vec::new()
    })
}

fn compile(rules: BTreeMap<i64, Vec<SeccompRule>>, answer: libc::c_int) -> Option<BpfProgram> {
    let refusal = SeccompAction::Errno(answer.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refusal, ARCHITECTURE?).ok()?;
    BpfProgram::try_from(filter).ok()
}

/// The calls that set a file's mode, and the position of that argument.
const MODES: &[(libc::c_long, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    // The newest call is given by number, because not every libc names it.
    (452, 2),
];

/// The calls that may create a file, and the positions of their flags and of the mode.
const MAKING: &[(libc::c_long, u8, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1, 2),
    (libc::SYS_openat, 2, 3),
];

fn bits(argument: u8, bits: u32) -> Result<SeccompCondition, seccompiler::BackendError> {
    let bits = u64::from(bits);
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(bits), bits)
}

fn rules(reach: NetworkReach) -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    for call in [libc::SYS_unshare, libc::SYS_clone] {
        let with_namespace: Result<Vec<SeccompRule>, _> = NAMESPACES
            .iter()
            .map(|flag| {
                let flag = u64::from(flag.unsigned_abs());
                let set = SeccompCmpOp::MaskedEq(flag);
                SeccompRule::new(vec![SeccompCondition::new(0, SeccompCmpArgLen::Qword, set, flag)?])
            })
            .collect();
        rules.insert(call, with_namespace?);
    }
    for (call, argument) in MODES {
        rules.insert(*call, vec![SeccompRule::new(vec![bits(*argument, libc::S_ISUID)?])?]);
    }
    for (call, flags, mode) in MAKING {
        let making = bits(*flags, libc::O_CREAT.unsigned_abs())?;
        rules.insert(*call, vec![SeccompRule::new(vec![making, bits(*mode, libc::S_ISUID)?])?]);
    }
    // The mark that identifies a child's process tree must not be removed.
    let is = |argument: u8, value: u64| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
    };
    let mark = u64::from(libc::RLIMIT_RTTIME);
    rules.insert(libc::SYS_setrlimit, vec![SeccompRule::new(vec![is(0, mark)?])?]);
    let setting = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
    rules.insert(libc::SYS_prlimit64, vec![SeccompRule::new(vec![is(1, mark)?, setting])?]);
    if reach == NetworkReach::ThisMachine {
        let other = |family: libc::c_int| {
            let family = u64::from(family.unsigned_abs());
            SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, family)
        };
        let rule = SeccompRule::new(vec![other(libc::AF_UNIX)?, other(libc::AF_NETLINK)?])?;
        rules.insert(libc::SYS_socket, vec![rule]);
    }
    Ok(rules)
}
