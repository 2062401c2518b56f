//! Powers of root that lead out of any fence, or that no build needs. Whoever is not root has none of them.
//!
//! Root keeps what unpacking and building need: changing owners and modes, and binding low ports.

/// By number, because not every libc names them.
const KEPT: [libc::c_ulong; 6] = [
    0,  // changing owners
    1,  // writing whatever the permissions say
    3,  // acting as the owner of files
    4,  // keeping bits of modes
    10, // low ports
    23, // priorities
];
/// The kernel has no more than so many.
const MOST: libc::c_ulong = 48;

/// For the calling thread and what it starts. Makes system calls only.
pub(super) fn drop_all() {
    for power in (0..MOST).filter(|power| !KEPT.contains(power)) {
        // SAFETY: the call takes numbers and touches no memory. It fails for who has nothing to drop, and nothing is lost.
        #[expect(unsafe_code, reason = "rustix has no plain way to drop them")]
        unsafe {
            libc::prctl(libc::PR_CAPBSET_DROP, power, 0, 0, 0);
        }
    }
}
