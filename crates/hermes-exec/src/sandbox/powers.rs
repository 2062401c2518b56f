//! Powers of root that lead out of any fence. Whoever is not root has none of them.
//!
//! Root keeps what installing and building need: changing owners, becoming other users, binding low ports.

/// By number, because not every libc names them.
const DROPPED: [libc::c_ulong; 15] = [
    2,  // reading whatever the permissions say
    9,  // files that cannot be changed
    16, // kernel modules
    17, // raw access to hardware
    19, // looking into other processes
    20, // accounting
    21, // administration: mounts, namespaces and much else
    22, // restarting the machine
    25, // the clock
    27, // device files
    31, // powers of files
    32, // policies
    33, // policies
    38, // performance counters, which include other processes' memory
    39, // programs in the kernel
];

/// For the calling thread and what it starts. Makes system calls only.
pub(super) fn drop_all() {
    for power in DROPPED {
        // SAFETY: the call takes numbers and touches no memory. It fails for who has nothing to drop, and nothing is lost.
        #[expect(unsafe_code, reason = "rustix has no plain way to drop them")]
        unsafe {
            libc::prctl(libc::PR_CAPBSET_DROP, power, 0, 0, 0);
        }
    }
}
