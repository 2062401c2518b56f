//! Drops capabilities of root that would break any sandbox, or that no build needs. Other users have none of
//! them.
//!
//! Root keeps what unpacking and building need: changing owners and modes, and binding low ports.

/// The kept capabilities, by number, because not every libc names them.
const KEPT: [libc::c_ulong; 6] = [
    0,  // changing owners
    1,  // writing whatever the permissions say
    3,  // acting as the owner of files
    4,  // keeping bits of modes
    10, // low ports
    23, // priorities
];
/// An upper bound for the numbers of the kernel's capabilities.
const MOST: libc::c_ulong = 48;

/// Drops the capabilities of the calling thread and the processes it starts. Makes only system calls.
pub(super) fn drop_all() {
    for power in (0..MOST).filter(|power| !KEPT.contains(power)) {
        // SAFETY: the call takes numbers and touches no memory. It fails for a thread without capabilities to
        // drop, which does no harm.
        #[expect(unsafe_code, reason = "rustix has no plain way to drop them")]
        unsafe {
            libc::prctl(libc::PR_CAPBSET_DROP, power, 0, 0, 0);
        }
    }
}
