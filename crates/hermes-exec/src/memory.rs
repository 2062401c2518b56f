//! Returns unused memory to the operating system.

/// Returns the memory that the allocator holds and does not use. Meant for a process that runs for months;
/// takes a few milliseconds.
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
