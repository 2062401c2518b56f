//! Memory that is returned to the system.

use hermes_exec::release_program_pages;

/// Returns the kilobytes of this program's own code that are mapped in memory.
fn mapped_code() -> u64 {
    let program = std::env::current_exe().unwrap();
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut is_code = false;
    let mut sum = 0;
    for line in smaps.lines() {
        if line.contains(" r-xp ") || line.contains(" r--p ") || line.contains(" rw-p ") {
            is_code = line.contains(" r-xp ") && line.ends_with(program.to_str().unwrap());
        } else if let Some(size) = line.strip_prefix("Rss:").filter(|_| is_code) {
            sum += size.trim().trim_end_matches(" kB").parse::<u64>().unwrap();
        }
    }
    sum
}

#[test]
fn code_that_has_run_is_unmapped_and_runs_again() {
    let text: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
    let before = mapped_code();
    release_program_pages();
    let after = mapped_code();
    assert!(after < before, "{before} kB before, {after} kB after");
    // Code and constants are what they were.
    let again: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
    assert_eq!(text, again);
    assert_eq!(std::thread::spawn(|| "x".repeat(3)).join().unwrap(), "xxx");
}
