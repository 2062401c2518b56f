//! Returns unused memory to the operating system.

/// Sets up the allocator for a process that waits most of the time: one heap for all threads, and large blocks from
/// the system and back to it. With a heap for each thread, a burst of work leaves pieces in all of them.
pub fn configure_allocator() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        /// The size in bytes from which a block comes from the system. A fixed one does not grow with use.
        const LARGE_BLOCK: libc::c_int = 64 * 1024;
        /// The free bytes at the end of the heap that are kept.
        const KEPT: libc::c_int = 128 * 1024;
        // SAFETY: the call takes numbers, and no other thread runs yet.
        #[expect(unsafe_code, reason = "no safe wrapper exists")]
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, 1);
            libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BLOCK);
            libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT);
        }
    }
}

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

/// Unmaps the program's own code and constants from this process. What runs again is mapped again from the page cache; what ran
/// only at the start, such as parsing arguments and settings, is not. Without this, most of an idle process is such code.
pub fn release_program_pages() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: the callback is called before the call returns, and gets a description that the linker made.
        #[expect(unsafe_code, reason = "no safe wrapper exists")]
        unsafe {
            libc::dl_iterate_phdr(Some(release_segments), std::ptr::null_mut());
        }
    }
}

/// Unmaps the segments of one object that are never written. The program is the first object; libraries stay.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "the linker describes the program by pointers")]
unsafe extern "C" fn release_segments(
    object: *mut libc::dl_phdr_info,
    _: libc::size_t,
    _: *mut libc::c_void,
) -> libc::c_int {
    const PAGE: usize = 4096;
    // SAFETY: the linker passes a valid description, whose headers lie in the mapped program.
    let (base, headers) = unsafe {
        let object = &*object;
        (object.dlpi_addr, std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)))
    };
    for header in headers {
        let is_written = header.p_flags & libc::PF_W != 0;
        if header.p_type != libc::PT_LOAD || is_written {
            continue;
        }
        let address = |offset: u64| usize::try_from(base.wrapping_add(offset)).unwrap_or_default();
        let begin = address(header.p_vaddr).next_multiple_of(PAGE);
        let end = address(header.p_vaddr.wrapping_add(header.p_memsz)) / PAGE * PAGE;
        if begin < end {
            // SAFETY: the range is a private mapping of the program's file that nothing writes to, so the kernel reads the same
            // bytes again when they are needed. An error changes nothing.
            unsafe {
                libc::madvise(begin as *mut libc::c_void, end - begin, libc::MADV_DONTNEED);
            }
        }
    }
    1
}
