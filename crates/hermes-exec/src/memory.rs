//! Giving memory back to the system.

/// Gives back what the allocator holds and nobody uses. For a process that lives for months; takes a few milliseconds.
pub fn release_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: the call takes a number, and the allocator takes its own locks.
        #[expect(unsafe_code, reason = "no safe wrapper exists")]
        unsafe {
            libc::malloc_trim(0);
        }
    }
}
